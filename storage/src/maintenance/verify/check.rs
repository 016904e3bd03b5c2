//! Verification of the files of a database.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use super::contradictions::contradictions;
use super::log_check::LogCheck;
use super::report::{Finding, VerifyReport, finding};
use super::segment_check::SegmentCheck;
use crate::error::{Error, ErrorKind, Result};
use crate::file_system::read_in_steps;
use crate::files;
use crate::key::{FileNumber, SeqNo, TableId};
use crate::log_store::{self, LogStore};
use crate::maintenance::db_files::DbFiles;
use crate::maintenance::progress::{MaintenanceProgress, Step};
use crate::manifest::{Inspection, Manifest, State, TableMeta};
use crate::options::Options;
use crate::runs::{FileMeta, Quarantine, RunMeta, RunStore};
use crate::sstable::{BlockCache, FileId, SsTable};
use crate::table_store::OpenFiles;
use crate::wal::{self, BoundedHold, Segment};

/// Verifies the database in a directory without opening it, so also a database that cannot be opened.
/// Only reads: the directory may be read-only. Takes the same shared lock as
/// [`Db::open_read_only`](crate::Db::open_read_only), so other processes may verify or read the
/// database at the same time. Calls `progress` after each block, each piece of a log segment and each
/// file.
///
/// # Errors
/// - [`Error::NoDatabase`] if the directory contains no database.
/// - [`Error::Incomplete`] if the directory is what an interrupted backup or repair left.
/// - [`Error::BeingWritten`] if the database is open for writing.
/// - [`Error::Io`] if the directory cannot be read, or was moved or replaced meanwhile.
///
/// Faults of the files are no errors; the report lists them.
pub fn verify(
    dir: impl AsRef<Path>,
    options: &Options,
    progress: &mut dyn FnMut(MaintenanceProgress),
) -> Result<VerifyReport> {
    let (dir, disk) = (dir.as_ref(), &options.disk);
    let (files, lock) = DbFiles::lock(&**disk, &*options.tables(dir), dir)?;
    let mut step = |now| {
        progress(now);
        ControlFlow::Continue(())
    };
    let mut check = Check::new(options, dir, true, &mut step);
    let _whole = match Manifest::load(disk.clone(), dir) {
        Ok(Some(manifest)) => {
            for damage in manifest.damage() {
                check.add_error(damage.clone());
            }
            let state = manifest.state();
            let segments = check.segments(state.wal_segments());
            check.state(state, &segments, None)
        }
        Ok(None) => {
            check.add(&files::current(dir), 0, "it is missing");
            check.by_itself(&files)
        }
        Err(error @ Error::Incomplete { .. }) => return Err(error),
        Err(error) => {
            check.add_error(error);
            check.by_itself(&files)
        }
    };
    log_store::check_in_place(lock.as_deref(), dir)?;
    Ok(check.report)
}

/// Verifies the database in `dir`. Finishes the inspection `manifest`, which the caller has begun,
/// and verifies the files that `state` names. The caller must prevent the removal of these files
/// meanwhile. `segments` are the WAL segments, each with the number of bytes to verify. `log` is the guard
/// that keeps them. It is dropped after their check; once it has ended, the rest of them is not checked.
/// Calls `step` before the manifest is read, and then after each block, each piece of a segment and each
/// file. Returns the report, and the SSTables in which damage was found; `None` if `step` returns `Break`.
pub(super) fn verify_state(
    options: &Options,
    dir: &Path,
    state: &State,
    segments: &[(FileNumber, u64)],
    manifest: Inspection,
    log: Option<BoundedHold<'_>>,
    step: Step<'_>,
) -> Option<(VerifyReport, Vec<FileNumber>)> {
    let mut check = Check::new(options, dir, false, step);
    let segments = with_paths(dir, segments);
    let is_whole =
        check.manifest(manifest).is_continue() && check.state(state, &segments, log).is_continue();
    is_whole.then_some((check.report, check.damaged))
}

fn with_paths(dir: &Path, segments: &[(FileNumber, u64)]) -> Vec<(Segment, u64)> {
    let with_path = |&(number, bytes): &(FileNumber, u64)| {
        let path = files::wal(dir, number);
        (Segment { number, path }, bytes)
    };
    segments.iter().map(with_path).collect()
}

struct Check<'a> {
    log_store: &'a dyn LogStore,
    runs: RunStore,
    dir: &'a Path,
    report: VerifyReport,
    /// The SSTables in which damage was found.
    damaged: Vec<FileNumber>,
    bytes_total: u64,
    /// Whether the log may end with a torn record, which a crash leaves and the next opening cuts
    /// off. An open database has none: each segment has whole records up to a known length.
    may_be_torn: bool,
    step: Step<'a>,
}

impl<'a> Check<'a> {
    fn new(options: &'a Options, dir: &'a Path, may_be_torn: bool, step: Step<'a>) -> Self {
        Self {
            log_store: &*options.disk,
            runs: RunStore::new(
                options.tables(dir),
                OpenFiles::new(options.max_open_files),
                Arc::new(BlockCache::new(0)),
                0,
            ),
            dir,
            report: VerifyReport::default(),
            damaged: Vec::new(),
            bytes_total: 0,
            may_be_torn,
            step,
        }
    }

    fn add(&mut self, path: &Path, offset: u64, detail: impl Into<String>) {
        self.report.findings.push(Finding {
            path: path.to_path_buf(),
            offset,
            detail: detail.into(),
        });
    }

    fn add_error(&mut self, error: Error) {
        self.report.findings.push(finding(error, self.dir));
    }

    /// Counts a file of `bytes` bytes as read, and reports the progress.
    fn read(&mut self, bytes: u64) -> ControlFlow<()> {
        self.report.files += 1;
        self.report.bytes += bytes;
        self.advance(0)
    }

    /// Reports the progress: all files that were read, and the first `bytes` of the next one.
    fn advance(&mut self, bytes: u64) -> ControlFlow<()> {
        let bytes_done = self.report.bytes + bytes;
        (self.step)(MaintenanceProgress {
            bytes_done,
            bytes_total: self.bytes_total.max(bytes_done),
        })
    }

    /// Returns the WAL segments with these numbers, and their lengths. If one is missing, or the
    /// directory cannot be listed, adds a finding, and returns no segment at all.
    fn segments(&mut self, numbers: Range<FileNumber>) -> Vec<(Segment, u64)> {
        match wal::segments(self.log_store, self.dir, numbers) {
            Ok(segments) => segments
                .into_iter()
                .map(|segment| {
                    let bytes = self.file_bytes(&segment.path);
                    (segment, bytes)
                })
                .collect(),
            Err(error) => {
                self.add_error(error);
                Vec::new()
            }
        }
    }

    fn file_bytes(&self, path: &Path) -> u64 {
        let file = self.log_store.open_read(path);
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    fn table_bytes(&self, number: FileNumber) -> u64 {
        let file = self.runs.tables().open(number.0);
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Finishes the check of the manifest's own files, and adds their damage to the report. The
    /// report does not count these files.
    fn manifest(&mut self, manifest: Inspection) -> ControlFlow<()> {
        // A caller may enter another class of threads in its first step.
        self.advance(0)?;
        for damage in manifest.finish() {
            self.add_error(damage);
        }
        ControlFlow::Continue(())
    }

    /// Checks the state of the manifest, the log, and the SSTables that the two name. Drops `hold` once
    /// the segments of the log are no longer needed.
    fn state(
        &mut self,
        state: &State,
        segments: &[(Segment, u64)],
        hold: Option<BoundedHold<'_>>,
    ) -> ControlFlow<()> {
        let wal_bytes: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
        self.bytes_total = state.runs().map(|run| run.bytes()).sum::<u64>() + wal_bytes;
        let manifest = files::current(self.dir);
        for detail in contradictions(state) {
            self.add(&manifest, 0, detail);
        }
        // The log is read first, because an open database cannot shorten it before that. Its findings
        // are listed behind those of the tables.
        let known = self.report.findings.len();
        let waiting = self.log(state, segments, hold.as_ref())?;
        drop(hold);
        let of_log = self.report.findings.split_off(known);
        self.bytes_total += waiting.iter().map(|(_, run)| run.bytes()).sum::<u64>();
        for table in state.tables.values() {
            for run in &table.runs {
                self.run(table, run)?;
            }
        }
        self.report.findings.extend(of_log);
        for (table, run) in &waiting {
            self.run(&state.tables[table], run)?;
        }
        ControlFlow::Continue(())
    }

    fn run(&mut self, table: &TableMeta, run: &RunMeta) -> ControlFlow<()> {
        self.report.runs += 1;
        let name = format!("run {} of {}.{}", run.id.0, table.keyspace, table.name);
        let mut before: Option<Vec<u8>> = None;
        for meta in &run.files {
            // The findings from this index on are those of this file.
            let known_from = self.report.findings.len();
            let file = self.sstable(meta.number, Some(meta.id))?;
            if let Some(quarantine) = &meta.quarantine {
                self.known_damage(meta, quarantine, known_from);
            }
            let Some(file) = file else {
                // The file's last key is not known, so the next file is not compared with it.
                before = None;
                continue;
            };
            let properties = file.properties();
            // The quarantine is in the manifest alone, not in the file.
            let found = FileMeta {
                quarantine: meta.quarantine.clone(),
                ..FileMeta::of(meta.number, &file)
            };
            if found != *meta {
                let detail = format!("{name}: {}", meta.mismatch(&found));
                self.add(file.path(), 0, detail);
            }
            // An ingested file was written outside of the database, before its commit: it has neither
            // the id of a table nor sequence numbers.
            let ingested = run.ingested_at.is_some();
            let (expected, span) = if ingested {
                (0, (SeqNo::ZERO, SeqNo::ZERO))
            } else {
                (table.id.0, (run.smallest_seq, run.largest_seq))
            };
            if properties.table_id != expected {
                let detail = format!("{name} has a file of table {}", properties.table_id);
                self.add(file.path(), 0, detail);
            }
            if properties.smallest_seq < span.0 || properties.largest_seq > span.1 {
                let detail = format!(
                    "{name} spans {} to {}, the file {} to {}",
                    span.0, span.1, properties.smallest_seq, properties.largest_seq
                );
                self.add(file.path(), 0, detail);
            }
            if properties.entries == 0 {
                // Range tombstones only: they have no place among the keys.
                continue;
            }
            // All versions of a key are in one file, so the keys must not be equal either.
            if before.is_some_and(|before| before >= properties.smallest_key) {
                let detail = format!("{name}: the file before it reaches into its keys");
                self.add(file.path(), 0, detail);
            }
            before = Some(properties.largest_key.clone());
        }
        ControlFlow::Continue(())
    }

    /// Adds to each finding about a file in quarantine the note that the file is in quarantine. The
    /// findings about this file begin at the index `from`. If there are none, adds a finding that
    /// the file is whole now.
    fn known_damage(&mut self, meta: &FileMeta, quarantine: &Quarantine, from: usize) {
        for finding in &mut self.report.findings[from..] {
            finding.note_quarantine();
        }
        if self.report.findings.len() == from {
            let detail = format!(
                "in quarantine, and whole now; it was: {}",
                quarantine.detail
            );
            self.add(&self.runs.name(meta.number), quarantine.offset, detail);
        }
    }

    /// Checks an SSTable by itself, and adds the faults that it shows twice to the report. Returns the SSTable;
    /// `None` if it cannot be opened. `id` is the id that the file must have, if known.
    fn sstable(
        &mut self,
        number: FileNumber,
        id: Option<FileId>,
    ) -> ControlFlow<(), Option<Arc<SsTable>>> {
        let mut bytes_done = 0;
        let (mut file, mut found) = self.read_sstable((number, id), &mut bytes_done)?;
        if !found.is_empty() {
            // Bytes that changed on their way from the disk are no damage.
            (file, found) = self.read_sstable((number, id), &mut bytes_done)?;
        }
        if found
            .iter()
            .any(|error| error.kind() == ErrorKind::Corruption)
        {
            self.damaged.push(number);
        }
        for error in found {
            self.add_error(error);
        }
        let bytes = match &file {
            Some(file) => {
                self.report.entries += file.properties().entries_with_tombstones();
                file.file_bytes()
            }
            // The progress must not fall.
            None => self.table_bytes(number).max(bytes_done),
        };
        self.read(bytes)?;
        ControlFlow::Continue(file)
    }

    /// Reads an SSTable past the caches of the system. Returns the SSTable, `None` if it cannot be opened, and
    /// its faults. `bytes_done` is the most that a reading of this file has reached: the progress must not fall.
    fn read_sstable(
        &mut self,
        (number, id): (FileNumber, Option<FileId>),
        bytes_done: &mut u64,
    ) -> ControlFlow<(), (Option<Arc<SsTable>>, Vec<Error>)> {
        self.runs.forget_cached(number);
        let file = match self.runs.open_table(number, id) {
            Ok(file) => file,
            Err(error) => return ControlFlow::Continue((None, vec![error])),
        };
        let (mut found, mut bytes) = (Vec::new(), 0_u64);
        let mut step = |more: u64| {
            // The length of a block that cannot be read may be any number.
            bytes = file.file_bytes().min(bytes.saturating_add(more));
            *bytes_done = bytes.max(*bytes_done);
            self.advance(*bytes_done)
        };
        file.verify_all(&mut step, &mut |error| found.push(error))?;
        ControlFlow::Continue((Some(file), found))
    }

    /// Checks the segments of the log, until `hold` has ended. Returns the ingested runs that only the
    /// log names.
    fn log(
        &mut self,
        state: &State,
        segments: &[(Segment, u64)],
        hold: Option<&BoundedHold<'_>>,
    ) -> ControlFlow<(), Vec<(TableId, RunMeta)>> {
        let mut log = LogCheck::new(Some(state));
        let has_ended = || hold.is_some_and(BoundedHold::is_ended);
        for (i, (segment, bytes_max)) in segments.iter().enumerate() {
            let known = self.report.findings.len();
            let before = self.report.bytes;
            if !has_ended() {
                let is_last = i + 1 == segments.len();
                self.segment(segment, *bytes_max, is_last, &mut log)?;
            }
            let read = self.report.bytes - before;
            if has_ended() && read < *bytes_max {
                // The database may have removed the segment before it was open.
                self.report.findings.truncate(known);
                self.report.wal_unchecked_bytes += bytes_max - read;
            }
        }
        let unchecked = self.report.wal_unchecked_bytes;
        self.bytes_total = self.bytes_total.saturating_sub(unchecked);
        let bookmarks = log.bookmarks.list.iter();
        // As all lists of snapshots, without holds.
        let snapshots = bookmarks.filter(|bookmark| bookmark.record.held_for.is_none());
        self.report.bookmarks = snapshots.count() as u64;
        ControlFlow::Continue(log.waiting)
    }

    /// Checks the first `bytes_max` bytes of a segment. If it `is_last`, and the log may end with a
    /// torn record, a torn tail is no damage.
    fn segment(
        &mut self,
        segment: &Segment,
        bytes_max: u64,
        is_last: bool,
        log: &mut LogCheck,
    ) -> ControlFlow<()> {
        let may_be_torn = is_last && self.may_be_torn;
        let mut check = SegmentCheck::new(log, segment, may_be_torn);
        let bytes = match self.read_segment(segment, bytes_max, &mut check) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.add_error(error);
                return ControlFlow::Continue(());
            }
        };
        self.report.wal_records += check.records;
        match check.end() {
            Ok(good_bytes) => self.report.wal_torn_bytes = bytes - good_bytes,
            Err(error) => self.add_error(error),
        }
        self.report.files += 1;
        self.advance(0)
    }

    /// Reads the first `bytes_max` bytes of a segment (or all, if it has fewer) for `check`, and
    /// returns the number of bytes read. Counts each piece as read at once, because the progress must
    /// not fall if the next piece cannot be read.
    fn read_segment(
        &mut self,
        segment: &Segment,
        bytes_max: u64,
        check: &mut SegmentCheck<'_>,
    ) -> Result<ControlFlow<(), u64>> {
        let path = &segment.path;
        let file = self.log_store.open_read(path);
        let file = file.map_err(Error::io("open", path))?;
        let found = file.len().map_err(Error::io("read", path))?;
        if found < bytes_max && !self.may_be_torn {
            let detail = format!("it has {found} bytes, and {bytes_max} were written");
            return Err(Error::corruption(path, found, detail));
        }
        let bytes = found.min(bytes_max);
        let read = read_in_steps(&*file, 0..bytes, &mut |piece| {
            check.add(piece);
            self.report.bytes += piece.len() as u64;
            Ok(self.advance(0))
        });
        let read = read.map_err(Error::io("read", path))?;
        Ok(read.map_continue(|()| bytes))
    }

    /// Checks every file by itself, without a manifest.
    fn by_itself(&mut self, files: &DbFiles) -> ControlFlow<()> {
        let tables = files.sstables.iter().map(|&n| self.table_bytes(n));
        let segments = files.segments.iter().map(|&n| files::wal(self.dir, n));
        let segments = segments.map(|path| self.file_bytes(&path));
        self.bytes_total = tables.chain(segments).sum();
        for &number in &files.sstables {
            self.sstable(number, None)?;
        }
        for (i, &number) in files.segments.iter().enumerate() {
            let path = files::wal(self.dir, number);
            let segment = Segment { number, path };
            let is_last = i + 1 == files.segments.len();
            let mut log = LogCheck::new(None);
            self.segment(&segment, u64::MAX, is_last, &mut log)?;
        }
        ControlFlow::Continue(())
    }
}
