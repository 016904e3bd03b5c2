//! The engine: everything that the handles and the background threads share.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::background::{Failures, Signal, Work};
use super::check_record::CheckRecord;
use super::events::Shortage;
use super::flush_round::FlushRound;
use super::low_water::LowWater;
use super::memtable_memory::MemtableMemory;
use super::merge_pauses::MergePauses;
use super::reserve::Reserve;
use super::unmergeable::Unmergeable;
use super::write::Member;
use super::write_stall::WriteStall;
use super::{BackupFiles, Catalog, EventListeners, GroupListeners, TableCore};
use crate::clock::MonotonicClock;
use crate::commit::{CommitQueue, Conflicts, Groups};
use crate::compaction::{Claims, MergesUnderWay};
use crate::db::choose::{gain_bytes, is_short_of_space};
use crate::db::compact::compact;
use crate::disk::{Disk, DiskWatch, PatientDisk};
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::key::{Boundaries, FileNumber, ReadPoint, ReadTime};
use crate::log_store::LockGuard;
use crate::manifest::{DatabaseId, Edit, Inspection, Manifest, State};
use crate::memtable::ChunkPool;
use crate::meter::Metering;
use crate::mutation::{self, Mutation};
use crate::options::Options;
use crate::runs::{FileNumbers, Run, RunMeta, RunStore};
use crate::snapshots::{SnapshotChanges, SnapshotRegistry};
use crate::stats::Counters;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, RwLock, RwLockReadGuard};
use crate::table_store::OpenFiles;
use crate::version::TableVersion;
use crate::wal::{SegmentHold, Wal};

/// The state that all handles of one database share.
///
/// Lock order (`a` > `b`: `b` may be taken while `a` is held):
///
/// - `flushing` > the lock inside `flush_round`, and that inside `signal`
/// - `flushing` > the lock inside `memtable_memory` > `catalog`
/// - `flushing` > `snapshot_ops` > `catalog` > the lock of the numbers of files > `manifest` > the
///   order lock of `queue` > a table's `replacing`, and the locks inside `wal`, `snapshots` (the
///   registry) and `conflicts`
///
/// Four locks are taken only while none of those above is held:
///
/// - `ingesting` > `catalog`
/// - `reopening` > `snapshot_ops`, and the lock inside `claims`
/// - `checking_file` > `catalog`, and the lock inside `claims`
/// - the lock inside `claims` > that inside `snapshots`; it is held neither while a picker decides
///   nor during a merge
///
/// While `check_record` is held, no other lock is taken.
///
/// Flushes do their I/O while they hold no lock but `flushing` and `manifest`, and merges while they
/// hold none but `manifest` (they claim their runs instead). No reader takes these two locks, and no
/// writer either, except under `Maintenance::Manual`. Writers take the lock inside `signal` while they
/// hold that of the write stall. A thread that reports the end of work takes the two one after the
/// other, and never holds both.
#[derive(Debug)]
pub(crate) struct Engine {
    /// An id that no other database opened by this process has.
    pub(crate) id: u64,
    pub(super) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) runs: RunStore,
    /// The disk of the log. It keeps spare file descriptors, to be closed when the process has no
    /// other left.
    pub(super) log_disk: PatientDisk,
    /// The files of `runs` that are open.
    pub(super) open_files: Arc<OpenFiles>,
    /// Finds calls to the disk that hang. No other lock of the engine is taken while its locks are
    /// held.
    pub(super) disk_watch: DiskWatch,
    pub(super) memtable_memory: MemtableMemory,
    /// Free chunks of memory for the next memtables.
    pub(super) chunks: Arc<ChunkPool>,
    pub(crate) queue: CommitQueue,
    /// The groups of commits that wait for a sync of the log.
    pub(super) groups: Groups<Member>,
    pub(crate) conflicts: Conflicts,
    pub(crate) wal: Wal,
    /// Bytes of the log that the opening replayed.
    pub(super) wal_bytes_replayed: u64,
    pub(crate) snapshots: SnapshotRegistry,
    pub(crate) events: Arc<EventListeners>,
    pub(crate) group_listeners: GroupListeners,
    pub(super) manifest: Mutex<Manifest>,
    pub(super) catalog: RwLock<Catalog>,
    /// The lock under which snapshots are created and deleted, one at a time. Its value is the
    /// largest id that a snapshot ever had.
    pub(super) snapshot_ops: Mutex<u64>,
    /// A lock that an ingest holds from the moment it takes its sequence numbers until it has
    /// succeeded or failed. A capture of the state, as for a backup, holds this lock, too.
    pub(super) ingesting: Mutex<()>,
    pub(super) clock: MonotonicClock,
    pub(crate) counters: Counters,
    /// Measurements of requests, while a meter exists.
    pub(crate) metering: Arc<Metering>,
    pub(super) signal: Signal,
    pub(super) write_stall: WriteStall,
    pub(super) failures: Mutex<Failures>,
    /// The lock of the thread that has begun a round of flushes: one round at a time in a database.
    pub(super) flushing: Mutex<()>,
    /// The round of flushes that is under way, if one is: several threads write memtables of
    /// different tables, and the new runs are installed together.
    pub(super) flush_round: FlushRound,
    /// The lock for opening a file again that did not open, for ending a quarantine, for restoring a
    /// file from a backup, and for giving up the lost part of a file. Without this lock, two threads
    /// could make two objects for one file, and the drop of the first would remove the file; a file
    /// that has just become whole could be given up; or a thread could open a file of which only a
    /// part is restored.
    pub(super) reopening: Mutex<()>,
    /// The runs that are being merged.
    pub(super) claims: Claims,
    pub(super) merges: MergesUnderWay,
    pub(super) merge_pauses: MergePauses,
    /// Whether the database is idle: it had no write, and hardly any read, for a while.
    pub(super) idle: AtomicBool,
    pub(super) stopping: AtomicBool,
    pub(super) access: Access,
    /// The file `RESERVE`: disk space that is held back for operations that free space on a full disk.
    pub(super) reserve: Reserve,
    /// The low-water mark: the free space on the disk that writes and merges must leave.
    pub(super) low_water: LowWater,
    /// The times of the last checks of SSTables. `None` if the opening of the database found no
    /// record of them, and no thread has looked for a file to check since.
    pub(super) check_record: Mutex<Option<CheckRecord>>,
    /// The lock that is held during a check of a file. No thread waits for it.
    pub(super) checking_file: Mutex<()>,
    /// The number in the last name that a backup tried for its folder of hard links; 0 at the opening.
    /// Each try takes the next number.
    pub(crate) backups: AtomicU64,
    /// The files that running backups and verifications keep.
    pub(crate) backup_files: BackupFiles,
    /// Since when merges leave runs out. No other lock is taken while its lock is held.
    pub(super) unmergeable: Unmergeable,
    /// The lock of the directory, released with the engine. `None` if the caller holds it, or if a
    /// database that was opened for reading could not be locked.
    pub(super) _lock: Option<Box<dyn LockGuard>>,
}

/// The access for which a database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading, beside other readers.
    Read,
    /// Reading and writing, beside no other user.
    Write,
}

/// A state of the database. The database removes none of the files that contain this state until
/// [`Self::release`], and none of the segments of its log until [`Self::take_log`].
#[derive(Debug)]
pub(crate) struct Capture<'a> {
    pub(crate) state: State,
    /// The ingested runs that the log names and `state` does not have yet.
    pub(crate) waiting: Vec<RunMeta>,
    /// The WAL segments that the state needs, ascending, each with the number of its bytes that are
    /// part of the state.
    pub(crate) segments: Vec<(FileNumber, u64)>,
    /// The versions of the tables, which keep the SSTables.
    versions: Vec<Arc<TableVersion>>,
    log: Option<SegmentHold<'a>>,
}

impl<'a> Capture<'a> {
    /// Returns the SSTables, each with its length in bytes.
    pub(crate) fn sstables(&self) -> impl Iterator<Item = (FileNumber, u64)> {
        let runs = self.state.runs().chain(&self.waiting);
        let files = runs.flat_map(|run| &run.files);
        files.map(|file| (file.number, file.bytes))
    }

    /// Returns the files that were missing or could not be read when they were opened, with the
    /// errors; none after [`Self::release`].
    pub(crate) fn unreadable(&self) -> HashMap<FileNumber, Error> {
        let versions = self.versions.iter();
        let runs = versions.flat_map(|version| version.all_runs());
        let files = runs.flat_map(|run| run.unreadable());
        files
            .map(|(file, error)| (file.number, error.clone()))
            .collect()
    }

    /// Allows the database to remove the captured files from now on.
    pub(crate) fn release(&mut self) {
        self.versions = Vec::new();
        self.log = None;
    }

    /// Returns the guard that keeps the segments of the log; `None` if it was released or taken before.
    /// Its drop takes no lock, so a thread of low priority may drop it.
    pub(crate) fn take_log(&mut self) -> Option<SegmentHold<'a>> {
        self.log.take()
    }
}

impl Engine {
    /// Returns the id of the database, a random one. A copy that a backup or a repair makes has
    /// another id.
    pub(crate) fn database_id(&self) -> DatabaseId {
        self.manifest.lock().unwrap().id()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.options.disk
    }

    /// Refills the spare descriptors, which a commit that begins a segment of the log may need.
    /// They are opened on LOCK because it always exists and is never replaced.
    pub(super) fn hold_spares(&self) {
        if self.access == Access::Write {
            self.log_disk.hold_spares(&files::lock(&self.dir));
        }
    }

    /// Requests another thread to merge beside this one. Does so only if the database has several
    /// threads for merges, and `is_wanted` returns true because there is something to merge.
    pub(crate) fn wake_compaction(&self, is_wanted: impl FnOnce() -> bool) {
        if self.options.compaction.threads > 1 && is_wanted() {
            self.signal.compact();
        }
    }

    /// Ends a view. Requests merges if runs keep versions for it.
    pub(crate) fn end_view(&self, point: ReadPoint) {
        if self.snapshots.release_view(point) {
            self.signal.compact();
        }
    }

    /// Returns the time by which expiry is judged, in milliseconds since 1970. It never goes back, even
    /// when the clock is set back.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Returns the time of the clock, in milliseconds since 1970. Unlike [`Self::now_ms`], this
    /// time goes back when the clock is set back. File checks record this time. A recorded time of
    /// [`Self::now_ms`] would be in the future until a clock that was set back has caught up.
    pub(super) fn clock_ms(&self) -> u64 {
        self.options.clock.now_ms()
    }

    /// Returns the time by which waits for a retry end: [`Clock::elapsed_ms`](crate::Clock::elapsed_ms).
    pub(super) fn elapsed_ms(&self) -> u64 {
        self.options.clock.elapsed_ms()
    }

    /// Returns the point at which a reader that begins now reads.
    pub(crate) fn read_point(&self) -> ReadPoint {
        ReadPoint {
            seq: self.queue.visible(),
            read_time_ms: self.now_ms(),
        }
    }

    /// Returns the time by which a reader of one key judges expiry now.
    pub(crate) fn read_time_now(&self) -> ReadTime<'_> {
        ReadTime::Now(&self.clock)
    }

    /// Returns the boundaries of a table: the commits and times at which its readers read. A flush or a
    /// merge calls this once its input is fixed: readers that begin afterwards need no version of the
    /// input that these boundaries do not need.
    pub(crate) fn boundaries(&self, table: &TableCore) -> Boundaries {
        let now_ms = self.now_ms();
        self.snapshots.boundaries(table.span(), now_ms)
    }

    pub(crate) fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read().unwrap()
    }

    pub(crate) fn tables(&self) -> Vec<Arc<TableCore>> {
        self.catalog.read().unwrap().tables().cloned().collect()
    }

    /// Makes an edit durable. After a refusal ([`Error::is_refusal`]) nothing of the edit is done. Any
    /// other failure stops all writes: no edit can follow, so nothing that is written could ever be
    /// flushed.
    pub(crate) fn commit_edit(&self, edit: Edit) -> Result<()> {
        self.check_access()?;
        let outcome = self.manifest.lock().unwrap().commit(edit);
        outcome.inspect_err(|e| {
            if !e.is_refusal() && !mutation::is(Mutation::GoOnAfterFailedEdit) {
                self.stop_writes(&e.to_string());
            }
        })
    }

    /// Begins a check of the manifest's files. Edits wait until this returns.
    ///
    /// # Errors
    /// [`Error::Io`] for a lack of descriptors, memory or permission.
    pub(crate) fn inspect_manifest(&self) -> Result<Inspection> {
        self.manifest.lock().unwrap().inspect()
    }

    /// See [`Db::manifest_damage`](crate::Db::manifest_damage).
    pub(crate) fn manifest_damage(&self) -> Vec<Error> {
        self.manifest.lock().unwrap().damage().to_vec()
    }

    /// Makes an edit of the manifest durable, then calls `show` to make its effect visible to
    /// readers, and returns true. The manifest is locked during both steps, so that no other edit
    /// comes in between.
    ///
    /// `edit` returns the edit for the current state. It returns `None` if there is nothing to
    /// install any more, for example because the table was dropped; then nothing is done, and the
    /// result is false. Removes the files of the `fresh` runs unless the manifest names them, or
    /// may name them after a failure.
    pub(crate) fn install(
        &self,
        fresh: &[Arc<Run>],
        edit: impl FnOnce(&State) -> Option<Edit>,
        show: impl FnOnce(&State),
    ) -> Result<bool> {
        self.check_access()?;
        let mut manifest = self.manifest.lock().unwrap();
        let outcome = match edit(manifest.state()) {
            // The new files are worth more than the reserve.
            Some(edit) => self.with_reserve(|| manifest.commit(edit.clone()).map(|()| true)),
            None => Ok(false),
        };
        if let Ok(true) = outcome {
            show(manifest.state());
        }
        drop(manifest);
        match &outcome {
            Ok(true) => {}
            Ok(false) => fresh.iter().for_each(|run| run.retire()),
            Err(e) if e.is_refusal() => fresh.iter().for_each(|run| run.retire()),
            Err(e) => self.stop_writes(&e.to_string()),
        }
        outcome
    }

    /// Returns whether an edit of the manifest failed with an uncertain outcome: the next opening
    /// may find the edit in the manifest all the same.
    pub(crate) fn has_uncertain_edit(&self) -> bool {
        self.manifest.lock().unwrap().has_failed()
    }

    /// Captures the database as it is now, with every commit that was acknowledged so far. None of
    /// its files and segments is removed until the capture is released or dropped. Writers are not
    /// held up.
    pub(crate) fn capture(&self) -> Result<Capture<'_>> {
        // From here on, no segment is removed that the state below needs.
        let hold = self.wal.hold_segments();
        let early = mutation::is(Mutation::BackupLogFirst)
            .then(|| self.wal.written_segments())
            .transpose()?;
        mutation::linger(&[Mutation::BackupLogFirst]);
        // No ingest may add a file to the log between the versions and the end of the log that are
        // read here.
        let _ingests = self.ingesting.lock().unwrap();
        // No table may be created behind the state and be written to in the log.
        let catalog = self.catalog.read().unwrap();
        let (state, versions): (_, Vec<Arc<TableVersion>>) = {
            let manifest = self.manifest.lock().unwrap();
            let versions = catalog.tables().map(|table| table.version()).collect();
            (manifest.state().clone(), versions)
        };
        // The segments are read last: everything that the state relies on was written before.
        let segments = early.map_or_else(|| self.wal.written_segments(), Ok)?;
        drop(catalog);
        let waiting = versions.iter().flat_map(|version| version.waiting_runs());
        let waiting = waiting.map(|run| run.meta().clone());
        let waiting = waiting.filter(|_| !mutation::is(Mutation::BackupWithoutWaitingRuns));
        let waiting = waiting.collect();
        let needed = |(number, _): &(FileNumber, u64)| *number >= state.wal_floor;
        let versions = mutation::replace(versions, Mutation::BackupHoldsNoFiles, Vec::new());
        Ok(Capture {
            segments: segments.into_iter().filter(needed).collect(),
            state,
            waiting,
            versions,
            log: Some(hold),
        })
    }

    /// Refuses writes from now on, with errors that name `cause`; reads go on.
    pub(super) fn stop_writes(&self, cause: &str) {
        self.wal.poison(cause);
        self.write_stall.work_ended();
    }

    /// Returns the operations on snapshots that the manifest does not have yet; `None` if it has all.
    /// The WAL has to be synced before they are recorded.
    pub(crate) fn unrecorded_snapshots(&self) -> Option<SnapshotChanges> {
        let as_of = self.snapshots.as_of();
        let recorded = self.manifest.lock().unwrap().state().bookmarks.as_of;
        if as_of <= recorded || mutation::is(Mutation::BookmarksOutsideManifest) {
            return None;
        }
        // The commit of a bookmark that is registered may yet be refused.
        self.queue.wait_visible(as_of);
        Some(self.snapshots.changes(recorded, as_of))
    }

    /// Records the outcome of flushes or merges. [`Self::maintenance_failure`] returns the error. If
    /// there was no disk space, writers that wait for this work may fail. Notifies the event listeners
    /// when the work runs out of disk space or finds space again. A failure while the engine stops is
    /// not recorded.
    pub(super) fn note_outcome(&self, work: Work, outcome: &Result<()>) {
        let failed = outcome.as_ref().err();
        if failed.is_some() && self.stopping.load(Ordering::Relaxed) {
            return;
        }
        self.failures.lock().unwrap().note(work, failed);
        let shortage = match work {
            Work::Flush => Shortage::Flushes,
            Work::Compaction => Shortage::Merges,
        };
        match failed {
            Some(Error::DiskFull { path }) => {
                self.events.tell_of_space(shortage, Some(path));
            }
            Some(_) => {}
            None => {
                self.events.tell_of_space(shortage, None);
            }
        }
        if failed.is_some() {
            self.write_stall.work_ended();
        }
    }

    /// Returns the error of the last try of a kind of work, if it found no space.
    pub(super) fn starved(&self, work: Work) -> Option<Error> {
        let failure = self.failures.lock().unwrap().of(work).cloned();
        failure.filter(|e| e.kind() == ErrorKind::DiskFull)
    }

    /// Returns the error of the last flushes if they failed, else that of the last merges if they
    /// failed, else the error of a run that merges leave out; `None` if there is no such error.
    pub(crate) fn maintenance_failure(&self) -> Option<Error> {
        let failures = self.failures.lock().unwrap();
        let of = |work| failures.of(work).cloned();
        let failure = of(Work::Flush).or_else(|| of(Work::Compaction));
        drop(failures);
        failure.or_else(|| self.left_out_error())
    }

    /// Refuses writes to a database that was opened for reading: every operation that would write
    /// calls this first.
    ///
    /// # Errors
    /// `OpenedReadOnly`.
    #[inline]
    pub(crate) fn check_access(&self) -> Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(Error::OpenedReadOnly),
        }
    }

    /// Returns an error when the database is being closed, so that long work stops early.
    pub(crate) fn check_stop(&self) -> Result<()> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Error::InvalidRequest("the database is being closed".into()));
        }
        Ok(())
    }

    /// Returns whether the database is idle: it had no write, and hardly any read, for a while.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Merges until no table has a merge worth doing, and no other thread merges. First retries
    /// runs that merges leave out.
    ///
    /// # Errors
    /// An error of a merge, or of the deletion of expired snapshots. If a run cannot be read, the
    /// error is returned once everything else is merged.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.check_access()?;
        self.delete_expired_snapshots()?;
        self.retry_unreadable_now()?;
        loop {
            let seen = self.claims.ended();
            self.compact_more()?;
            if self.claims.ended() == seen && !self.claims.wait_for_another_end(seen) {
                return self.left_out_error().map_or(Ok(()), Err);
            }
        }
    }

    /// Merges until no further merge is worth it. Does not wait for merges under way in other
    /// threads.
    pub(super) fn compact_more(&self) -> Result<()> {
        let outcome = self.retry_unreadable();
        let outcome = outcome.and_then(|()| self.merge_while_worth_it());
        // While other threads merge, the outcome is theirs.
        if outcome.is_err() || self.claims.running() == 0 {
            self.note_outcome(Work::Compaction, &outcome);
        }
        outcome
    }

    fn merge_while_worth_it(&self) -> Result<()> {
        loop {
            // Tables with the most runs come first, with one merge of each: a table that always has
            // more to merge does not keep the others waiting. If space is short, tables whose
            // merges free the most come first.
            let mut tables = self.tables();
            if is_short_of_space(self, &tables) {
                tables.sort_by_cached_key(|table| Reverse(gain_bytes(self, table)));
            } else {
                tables.sort_by_cached_key(|table| Reverse(table.peek().runs.len()));
            }
            let (mut has_merged, mut starved) = (false, None);
            for table in tables {
                match compact(self, &table) {
                    Ok(true) => {
                        has_merged = true;
                        self.write_stall.work_ended();
                        self.release_retired();
                    }
                    Ok(false) => {}
                    // Another table may have a merge that fits, or gives space back.
                    Err(e) if e.kind() == ErrorKind::DiskFull => starved = Some(e),
                    Err(e) => return Err(e),
                }
            }
            match (has_merged, starved) {
                (true, _) => {}
                (false, Some(starved)) => return Err(starved),
                (false, None) => break,
            }
        }
        // Merges that were worth it when a writer began to wait may not be now.
        self.write_stall.look_again();
        self.release_retired();
        Ok(())
    }

    /// Frees the replaced versions of all tables, and the dropped tables that no snapshot shows,
    /// unless a reader holds them. Returns how many of these versions and tables are still held.
    pub(crate) fn release_retired(&self) -> usize {
        let tables = self.tables().into_iter();
        let held: usize = tables.map(|table| table.release_retired()).sum();
        if self.catalog.read().unwrap().forgotten().is_empty() {
            return held;
        }
        let mut catalog = self.catalog.write().unwrap();
        let unread = catalog.take_unread();
        let waiting = catalog.forgotten().len();
        drop(catalog);
        unread.iter().for_each(|table| table.discard());
        held + waiting
    }
}

impl FileNumbers for Engine {
    fn next_file_number(&self) -> Result<FileNumber> {
        let reserve = |below| self.commit_edit(Edit::ReserveFiles { below });
        self.runs.next_file_number(reserve)
    }
}

impl Drop for Engine {
    /// Removes the files that were kept only for readers. When this runs, no reader is left, and
    /// the directory is still locked.
    fn drop(&mut self) {
        let catalog = self.catalog.get_mut().unwrap_or_else(|e| e.into_inner());
        for table in catalog.tables() {
            table.release_retired();
        }
        for table in catalog.forgotten() {
            table.discard();
        }
    }
}
