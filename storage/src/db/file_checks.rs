//! Checks of the SSTables of an open database, one after the other, so that damage is found while a
//! backup still has the file.
//!
//! ```text
//!   next_file_check ─► the oldest file, if it is due ─► read all blocks ─► finish
//!                                                         it is whole: CHECKS
//!                                                         damage: quarantine
//! ```
//!
//! The times of checks are those of the clock, which may be set back: see [`Engine::clock_ms`].
//!
//! A check holds one file, and nothing else: the log is trimmed, runs are merged, and tables are
//! dropped meanwhile.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::check_record::{Candidate, CheckRecord};
use super::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::files;
use crate::key::{RunId, TableId};
use crate::runs::{FileMeta, Run, RunFile};
use crate::sstable::SsTable;
use crate::sync::MutexGuard;
use crate::version::TableVersion;

/// A check of one SSTable: see [`Db::next_file_check`](crate::Db::next_file_check).
#[derive(Debug)]
pub struct FileCheck<'a> {
    engine: &'a Engine,
    table: TableId,
    run: RunId,
    candidate: Candidate,
    file: Arc<RunFile>,
    /// The outcome of the check; `None` until the file was read to its end or to an error.
    outcome: Option<Result<()>>,
    /// The lock that lets one check go on at a time. No thread waits for it.
    _checking: MutexGuard<'a, ()>,
}

impl FileCheck<'_> {
    /// Returns the path of the file, as errors name it.
    pub fn path(&self) -> &Path {
        self.sstable().path()
    }

    fn sstable(&self) -> &SsTable {
        self.file.table().expect("a file that opens")
    }

    /// Reads every block of the file past all caches if the system permits that, without a lock of the
    /// database, and compares its checksum. Calls `step` after every few data blocks, with the bytes of the data
    /// blocks since the last call; `step` may wait. If `step` breaks, the file counts as not
    /// checked.
    pub fn read(&mut self, step: &mut dyn FnMut(u64) -> ControlFlow<()>) {
        // A system that refuses this may return what it has cached.
        let _ = self.sstable().forget_cached();
        self.outcome = match self.sstable().check_blocks(step) {
            Ok(ControlFlow::Break(())) => None,
            Ok(ControlFlow::Continue(())) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
    }

    /// Records the outcome of the check. If [`Self::read`] found damage, the file is read again,
    /// past the caches of the system, and goes into quarantine if it is damaged again. The run of a
    /// file that cannot be read is left out of merges for a while.
    ///
    /// Returns false, and records nothing, if `step` ended the reading. After damage or a failed
    /// read, also returns false, and records nothing, in these cases: a merge has the run of the
    /// file now, and will find the error itself; the table no longer has the run; or no further
    /// merge may begin.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`], [`Error::ReadOnly`]: the outcome is not recorded.
    pub fn finish(mut self) -> Result<bool> {
        match self.outcome.take() {
            None => Ok(false),
            Some(Ok(())) => {
                self.engine.note_whole_file(&self)?;
                Ok(true)
            }
            Some(Err(error)) => self.engine.meet_failed_check(&self, error),
        }
    }
}

/// Returns the files of a version that can be checked: those that could be opened and are not known
/// to be damaged, each with its run.
fn checkable(version: &TableVersion) -> impl Iterator<Item = (RunId, &FileMeta, &Arc<RunFile>)> {
    version.runs.iter().flat_map(|run| {
        let files = run.meta().files.iter().zip(run.files());
        let sound =
            files.filter(|(meta, file)| meta.quarantine.is_none() && file.table().is_some());
        sound.map(move |(meta, file)| (run.id(), meta, file))
    })
}

impl Engine {
    /// See [`Db::next_file_check`](crate::Db::next_file_check).
    pub(crate) fn next_file_check(&self, every: Duration) -> Result<Option<FileCheck<'_>>> {
        self.check_access()?;
        let Ok(checking) = self.checking_file.try_lock() else {
            return Ok(None);
        };
        // The outcome could not be recorded.
        if self.wal.failure().is_some() {
            return Ok(None);
        }
        let now_ms = self.clock_ms();
        self.begin_check_record(now_ms)?;
        let (mut all, mut candidates, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for table in self.tables() {
            let (version, left_out) = (table.version(), table.left_out.at(self.elapsed_ms()));
            let files = version.runs.iter().flat_map(|run| &run.meta().files);
            all.extend(files.map(|file| file.id));
            for (run, meta, file) in checkable(&version) {
                if !left_out.contains(&run) {
                    let (id, bytes) = (meta.id, meta.bytes);
                    candidates.push(Candidate { id, bytes });
                    places.push((table.id, run, file.clone()));
                }
            }
        }
        let next = {
            let mut record = self.check_record.lock().unwrap();
            let record = record.get_or_insert_with(|| CheckRecord::new(now_ms));
            record.note_files(all, now_ms);
            record.next(&candidates, every.as_millis() as u64)
        };
        let Some((candidate, _)) = next.filter(|(_, due_ms)| *due_ms <= now_ms) else {
            return Ok(None);
        };
        let at = candidates.iter().position(|other| *other == candidate);
        let (table, run, file) = places.swap_remove(at.expect("one of the candidates"));
        Ok(Some(FileCheck {
            engine: self,
            table,
            run,
            candidate,
            file,
            outcome: None,
            _checking: checking,
        }))
    }

    /// Reads the record of checks, or begins one, unless that was done before.
    fn begin_check_record(&self, now_ms: u64) -> Result<()> {
        if self.check_record.lock().unwrap().is_some() {
            return Ok(());
        }
        // The lock is not held meanwhile: the statistics wait for it.
        let read = CheckRecord::read(self.disk(), &self.dir);
        let record = match read.map_err(Error::io("read", &files::checks(&self.dir)))? {
            Some(record) => record,
            None => {
                let record = CheckRecord::new(now_ms);
                record.write(self.disk(), &self.dir)?;
                record
            }
        };
        *self.check_record.lock().unwrap() = Some(record);
        Ok(())
    }

    fn note_whole_file(&self, check: &FileCheck<'_>) -> Result<()> {
        if let Some(table) = self.tables().iter().find(|table| table.id == check.table) {
            table.left_out.forget_failures_of(check.run, check.path());
        }
        let now_ms = self.clock_ms();
        let record = {
            let mut record = self.check_record.lock().unwrap();
            let record = record.get_or_insert_with(|| CheckRecord::new(now_ms));
            record.note_check(check.candidate.id, now_ms);
            record.clone()
        };
        record.write(self.disk(), &self.dir)
    }

    /// Handles the error of a check: puts a damaged file into quarantine, and leaves a run that
    /// could not be read out of merges for a while, as after a merge that fails. Returns true if
    /// the error was handled, or the table is gone. Returns false, without an effect, if a merge
    /// has the run now, no further merge may begin, or the run is no longer in its table.
    fn meet_failed_check(&self, check: &FileCheck<'_>, error: Error) -> Result<bool> {
        let tables = self.tables();
        let Some(table) = tables.iter().find(|table| table.id == check.table) else {
            return Ok(true);
        };
        let find = || -> Option<Arc<Run>> {
            let version = table.version();
            let run = version.runs.iter().find(|run| run.id() == check.run);
            run.cloned()
        };
        // No merge may replace the run meanwhile.
        let Some((claim, run)) = self.claims.claim(&[check.run], (0, 0), find) else {
            return Ok(false);
        };
        let met = self.meet_failure(table, &[run], error);
        drop(claim);
        // A thread that looked for merges meanwhile has passed over the run.
        self.signal.compact();
        met.map(|()| true)
    }

    /// Returns the longest time since the last check of a file, in milliseconds. For a file that
    /// was not checked yet, the time is counted from a time before it was written, or from the
    /// creation of the record of checks if the file is older. `None` if there is no file to check,
    /// or the record of checks has not been read yet.
    pub(super) fn oldest_file_check_ms(&self) -> Option<u64> {
        let tables = self.tables();
        let record = self.check_record.lock().unwrap();
        let record = record.as_ref()?;
        let oldest = |table: &Arc<TableCore>| {
            let version = table.version();
            let times = checkable(&version).map(|(_, meta, _)| record.since_ms(meta.id));
            times.min()
        };
        let oldest_ms = tables.iter().filter_map(oldest).min()?;
        Some(self.clock_ms().saturating_sub(oldest_ms))
    }
}
