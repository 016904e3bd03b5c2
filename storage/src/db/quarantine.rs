//! Quarantine: a file in which a merge found damage is not merged any more. The merge ends; other
//! runs of the table and other tables are merged, and writes go on.
//!
//! ```text
//!   damage ─► is it on the disk? ─► edit of the manifest ─► the run is not merged
//!              │ no: memory; again
//!              ▼ the third time for this run
//!   I/O error of an input ────────► the run is left out of merges for a while
//! ```
//!
//! The run stays where it is in the list, so a reader that needs the damaged data fails. See the
//! book, Quarantine.

use std::path::Path;
use std::sync::Arc;

use super::events::Event;
use super::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::{FileNumber, RunId};
use crate::manifest::{Edit, State};
use crate::mutation::{self, Mutation};
use crate::runs::{FileMeta, Quarantine, Run, RunFile};
use crate::sstable::SsTable;

impl Engine {
    /// Handles the error of a merge or a check of these runs, which are claimed: puts a damaged file
    /// into quarantine, and leaves a run out of merges for a while if a file of it could not be read.
    ///
    /// # Errors
    /// `error` itself if no input is the cause, as when the output cannot be written; the failure to
    /// record the quarantine.
    pub(super) fn meet_failure(
        &self,
        table: &TableCore,
        inputs: &[Arc<Run>],
        error: Error,
    ) -> Result<()> {
        match &error {
            Error::Corruption { path, .. } if !mutation::is(Mutation::StopAtDamage) => {
                let damaged = file_of(inputs, path);
                self.meet_damage(table, inputs, damaged, error)
            }
            // Inputs are never written or synced, so an error with the path of one is that of a read.
            Error::Io { path, .. }
                if !error.is_out_of_resources() && !mutation::is(Mutation::StopAtFailedRead) =>
            {
                let Some((run, ..)) = file_of(inputs, path) else {
                    return Err(error);
                };
                self.leave_out(table, [run], &error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Handles the damage that a merge or a check found. `damaged` is the file of an input that has
    /// the damage; `None` if the damage is somewhere else, for example in the output of the merge.
    fn meet_damage(
        &self,
        table: &TableCore,
        inputs: &[Arc<Run>],
        damaged: Option<(RunId, FileNumber, &Arc<SsTable>)>,
        error: Error,
    ) -> Result<()> {
        if let Some((run, number, file)) = damaged {
            // Reads past all caches: bytes that changed in memory are no damage.
            let first = error.clone();
            let again = mutation::replace(
                file.verify_past_caches(),
                Mutation::TrustFirstReading,
                Err(first),
            );
            if let Err(again) = again {
                let Some(found) = Quarantine::of(&again) else {
                    return self.meet_failure(table, inputs, again);
                };
                table.left_out.remove([run]);
                return self.quarantine(table, number, found).map(drop);
            }
        }
        let (suspects, file) = match damaged {
            Some((run, _, file)) => (vec![run], Some(file.path())),
            // Any of the inputs may be at fault.
            None => (inputs.iter().map(|run| run.id()).collect(), None),
        };
        let left_out = table.left_out.suspect(suspects, file);
        if !left_out.is_empty() {
            self.leave_out(table, left_out, &error);
        }
        Ok(())
    }

    /// Notes that a merge read all of its inputs, or dropped them unread. Forgets the earlier
    /// failures and suspicions of these runs, and of no other: sound merges of other runs do not
    /// show that these can be read.
    pub(super) fn note_sound_merge(&self, table: &TableCore, inputs: &[Arc<Run>]) {
        table.left_out.remove(inputs.iter().map(|run| run.id()));
    }

    /// Puts a file into quarantine: records in the manifest that it is damaged, so that merges leave its
    /// run alone, and notifies the event listeners. (Reads of its damaged blocks fail in any case, and
    /// reads of its other blocks go on.) Does nothing, and returns false, if the table no longer has the
    /// file. The caller keeps other threads from replacing the run of the file meanwhile.
    pub(super) fn quarantine(
        &self,
        table: &TableCore,
        file: FileNumber,
        quarantine: Quarantine,
    ) -> Result<bool> {
        let edit = Edit::Quarantine {
            table: table.id,
            file,
            quarantine: quarantine.clone(),
        };
        let show = || {
            table.update(|version| version.quarantined(file, &quarantine));
        };
        if mutation::is(Mutation::ForgetQuarantine) {
            show();
            return Ok(true);
        }
        // A table that was dropped meanwhile needs no quarantine.
        let is_there = |state: &State| state.has_file(table.id, file);
        let edit = |state: &State| is_there(state).then_some(edit);
        let is_recorded = self.install(&[], edit, |_| show())?;
        if is_recorded {
            self.events.tell(Event::Quarantined {
                keyspace: &table.keyspace,
                table: &table.name,
                path: &self.runs.name(file),
                offset: quarantine.offset,
                detail: &quarantine.detail,
            });
        }
        Ok(is_recorded)
    }

    /// Reads the file with this number past all caches, and puts it into quarantine if it is damaged: a
    /// verification, a backup or a restore has found damage in it. Waits for a merge that reads the run of
    /// the file. Returns whether the file is in quarantine now. Also returns false if no table has the file
    /// any more, or if the quarantine cannot be recorded, because the disk is full or the database accepts
    /// no writes.
    pub(crate) fn quarantine_if_damaged(&self, number: FileNumber) -> bool {
        if self.check_access().is_err() || self.wal.failure().is_some() {
            return false;
        }
        let run_in = |table: &TableCore| -> Option<RunId> {
            let version = table.version();
            let mut runs = version.runs.iter();
            let run = runs.find(|run| run.meta().numbers().any(|file| file == number));
            run.map(|run| run.id())
        };
        let tables = self.tables();
        let place = tables
            .iter()
            .find_map(|table| Some((table, run_in(table)?)));
        let Some((table, id)) = place else {
            return false;
        };
        // No merge may replace the run meanwhile.
        let Some((claim, run)) = self.claim_file(table, (id, number)) else {
            return false;
        };
        let mut files = run.meta().files.iter().zip(run.files());
        let is_damaged = match files.find(|(meta, _)| meta.number == number) {
            Some((meta, _)) if meta.quarantine.is_some() => true,
            Some((_, file)) => {
                let read = file.table().map(|table| table.verify_past_caches());
                let found = read.and_then(|read| Quarantine::of(&read.err()?));
                found.is_some_and(|found| {
                    table.left_out.remove([id]);
                    self.quarantine(table, number, found).unwrap_or(false)
                })
            }
            None => false,
        };
        drop(claim);
        // A thread that looked for merges meanwhile has passed over the run.
        self.signal.compact();
        is_damaged
    }

    /// Ends the quarantine of each file in which a reading of all blocks, past all caches, finds no
    /// damage. Returns the paths of these files, none if the database accepts no writes; `None` if
    /// `goes_on`, which is called before each file, returned false.
    ///
    /// # Errors
    /// The failure to record that a quarantine ended. A full disk is no error here.
    pub(crate) fn lift_quarantines(
        &self,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<String>>> {
        let (mut lifted, mut is_stopped) = (Vec::new(), false);
        if self.check_access().is_err() || self.wal.failure().is_some() {
            return Ok(Some(lifted));
        }
        let reopening = self.reopening.lock().unwrap();
        'tables: for table in self.tables() {
            for run in &table.version().runs {
                let files = run.meta().files.iter().zip(run.files());
                for (damaged, file) in files.filter(|(meta, _)| meta.quarantine.is_some()) {
                    if !goes_on() {
                        is_stopped = true;
                        break 'tables;
                    }
                    if self.lift(&table, damaged, file)? {
                        let path = self.runs.name(damaged.number);
                        lifted.push(path.display().to_string());
                    }
                }
            }
        }
        drop(reopening);
        // No thread would wake for a retry that was due meanwhile.
        self.signal.compact();
        Ok((!is_stopped).then_some(lifted))
    }

    fn lift(&self, table: &TableCore, damaged: &FileMeta, file: &Arc<RunFile>) -> Result<bool> {
        let skip = Mutation::LiftUnverified;
        let verified = match file.table() {
            // The object that readers have is kept. Two objects could not share one file: it goes
            // with the first.
            Some(open) => {
                let checked = mutation::unless(skip, || open.verify_past_caches());
                checked.map(|()| file.clone())
            }
            None => self.runs.open_whole(damaged, skip),
        };
        let Ok(file) = verified else {
            return Ok(false);
        };
        let whole = FileMeta {
            quarantine: None,
            ..damaged.clone()
        };
        match self.replace_damaged(table, damaged.number, whole, file) {
            Err(Error::DiskFull { .. }) => Ok(false),
            replaced => replaced,
        }
    }

    /// Replaces a damaged file by a whole one, and removes the damaged one once no reader needs it. If
    /// `whole` has the number of the damaged file, no file is removed: the file was found to be whole
    /// after all, or was missing and is restored. If the damaged file has left the table meanwhile, the
    /// whole file is removed, and the result is false.
    pub(crate) fn replace_damaged(
        &self,
        table: &TableCore,
        damaged: FileNumber,
        whole: FileMeta,
        file: Arc<RunFile>,
    ) -> Result<bool> {
        let (number, is_new) = (whole.number, whole.number != damaged);
        let edit = Edit::Restore {
            table: table.id,
            file: damaged,
            by: whole.clone(),
        };
        let is_there = |state: &State| state.has_file(table.id, damaged);
        let edit = |state: &State| is_there(state).then_some(edit);
        let show = |_: &State| {
            table.update(|version| version.restored(damaged, &whole, &file));
        };
        let replaced = self.install(&[], edit, show);
        match &replaced {
            Ok(true) => {
                self.forget_unreadable(table, number);
                self.signal.compact();
            }
            Ok(false) => file.retire(),
            // After any other error the manifest may name the file.
            Err(error) if is_new && error.is_refusal() => file.retire(),
            _ => {}
        }
        replaced
    }
}

/// Returns the open file of these runs that has this path, with its run and its number; `None` if there
/// is none.
fn file_of<'a>(runs: &'a [Arc<Run>], path: &Path) -> Option<(RunId, FileNumber, &'a Arc<SsTable>)> {
    runs.iter().find_map(|run| {
        let mut files = run.open_files();
        let (number, file) = files.find(|(_, file)| file.path() == path)?;
        Some((run.id(), number, file))
    })
}
