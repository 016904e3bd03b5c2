//! Opening a directory: recovery.
//!
//! The manifest lists the SSTables, and for each table the number up to which they have its writes;
//! the WAL has the rest. Recovery first reads both, so that an unreadable manifest or log, or an
//! unknown format, is refused with nothing changed. An SSTable that cannot be read leaves a gap.
//! Then recovery writes, and a second recovery would still find the same: it makes durable what was
//! read, since all that follows relies on that; it cuts a torn tail, which was never acknowledged
//! as durable; and it removes files that the manifest does not name. A database that is opened for
//! reading only is read, and the part that writes is left out.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::backlog::TOKENS_MAX_FRACTION;
use super::check_record::CheckRecord;
use super::engine::Access;
use super::events::Shortage;
use super::flush_round::FlushRound;
use super::low_water::LowWater;
use super::memtable_memory::MemtableMemory;
use super::merge_pauses::MergePauses;
use super::replay::replay_wal;
use super::reserve::Reserve;
use super::write_stall::WriteStall;
use super::{Catalog, Engine, EventListeners, TableCore};
use crate::clock::MonotonicClock;
use crate::commit::{CommitQueue, Conflicts, Groups};
use crate::compaction::{Claims, MergesUnderWay};
use crate::disk::{Disk, DiskCalls, DiskWatch, PatientDisk};
use crate::error::{Error, Result};
use crate::file_system;
use crate::files::{self, FileKind};
use crate::key::{FileNumber, RunId, SeqNo};
use crate::log_store::{self, LockGuard};
use crate::manifest::{Edit, Manifest, State};
use crate::memtable::{ChunkPool, Memtable};
use crate::mutation::{self, Mutation};
use crate::options::{Maintenance, Options};
use crate::read::MergeOperators;
use crate::runs::{Quarantine, RunMeta, RunStore};
use crate::snapshots::SnapshotRegistry;
use crate::stats::Counters;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use crate::table_store::{LinkFolder, Stage, TableStore};
use crate::version::TableVersion;
use crate::wal::{self, Wal, WalEvent};

/// The least number of segments in a log of its largest size. The log shrinks only by whole
/// segments, so few large segments would let it shrink only in large steps.
const WAL_SEGMENTS_MIN: u64 = 8;

/// The number of databases that this process has opened so far, which is the id of the next one.
static DATABASES_OPENED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Engine {
    /// Opens the database of `dir` for reading and writing, with no other user beside it, and
    /// recovers it from a crash. If there is no database, creates one if
    /// [`Options::create_if_missing`] is set.
    pub(super) fn open(dir: &Path, options: Options) -> Result<Arc<Self>> {
        let (options, patient, disk_calls) = options.for_engine();
        let disk = options.disk.clone();
        if !options.create_if_missing && !Manifest::exists(&*disk, dir)? {
            refuse_headless(&*disk, dir, &*options.tables(dir))?;
            return Err(Error::NoDatabase {
                path: dir.to_path_buf(),
            });
        }
        disk.create_dir_all(dir)
            .map_err(Error::no_space_or_io("create", dir))?;
        let lock = log_store::take_lock(&*disk, dir)?;
        let manifest = match Manifest::load(disk.clone(), dir)? {
            Some(manifest) => manifest,
            None => {
                refuse_headless(&*disk, dir, &*options.tables(dir))?;
                Manifest::create(disk.clone(), dir)?
            }
        };
        let options = (options, patient, disk_calls);
        Self::recover(dir, options, manifest, Some(lock), Access::Write)
    }

    /// Opens the database of `dir` for reading, beside other readers. Recovers it from a crash in
    /// memory only, and writes nothing.
    pub(super) fn open_read_only(dir: &Path, options: Options) -> Result<Arc<Self>> {
        let (options, patient, disk_calls) = options.for_engine();
        let disk = options.disk.clone();
        let none = || Error::NoDatabase {
            path: dir.to_path_buf(),
        };
        if !Manifest::exists(&*disk, dir)? {
            refuse_headless(&*disk, dir, &*options.tables(dir))?;
            return Err(none());
        }
        let lock = log_store::share_lock(&*disk, dir)?;
        // The last holder of the lock may have replaced the manifest.
        let manifest = Manifest::load(disk, dir)?.ok_or_else(none)?;
        let options = Options {
            // No thread flushes or merges.
            maintenance: Maintenance::Manual,
            ..options
        };
        let options = (options, patient, disk_calls);
        Self::recover(dir, options, manifest, lock, Access::Read)
    }

    /// Returns an engine with the state of `manifest` and of the log in `dir`. The options are
    /// those of [`Options::for_engine`]. With [`Access::Write`], first makes the state durable,
    /// records damaged files, and removes what a crash left on the disk.
    pub(crate) fn recover(
        dir: &Path,
        (options, patient, disk_calls): (Options, PatientDisk, Arc<DiskCalls>),
        mut manifest: Manifest,
        lock: Option<Box<dyn LockGuard>>,
        access: Access,
    ) -> Result<Arc<Self>> {
        let (disk, open_files) = (options.disk.clone(), patient.files().clone());
        let state = manifest.state();
        let cache = Arc::new(options.block_cache());
        let chunks = Arc::new(ChunkPool::new(options.spare_memtable_bytes()));
        let id = DATABASES_OPENED.fetch_add(1, Ordering::Relaxed);
        let tables = options.tables(dir);
        let runs = RunStore::new(tables, open_files.clone(), cache, options.file_bytes);
        let (mut catalog, damaged) =
            open_tables(id, &chunks, &runs, &options.merge_operators, state)?;
        let snapshots = SnapshotRegistry::new(state.bookmarks.clone());
        let mut recovered = replay_wal(
            &*disk,
            dir,
            state,
            &catalog,
            &snapshots,
            options.memtable_bytes,
            &runs,
        )?;
        let waiting = waiting_runs(&catalog);
        let metas = || state.runs().chain(&waiting);
        let last_file = metas().flat_map(RunMeta::numbers).map(|file| file.0).max();
        let last_run = metas().map(|run| run.id.0).max();
        let after_last = FileNumber(last_file.unwrap_or(0) + 1);
        // Files with unnamed numbers below the bound may have existed. A pin that outlived such a file
        // must find nothing, rather than a new file of another table. So numbers begin at the bound.
        let below = state.files_below.max(after_last);
        let next_file = mutation::replace(below, Mutation::ReuseFileNumbers, after_last);
        runs.number_from(next_file, below, RunId(last_run.unwrap_or(0) + 1));
        let last_snapshot_id = snapshots.last_id();
        let last_snapshot_id = mutation::replace(last_snapshot_id, Mutation::ReuseSnapshotIds, 0);
        let last_seq = last_seq(recovered.last_seq, state.last_seq());

        mutation::unless(Mutation::TrustOldManifest, || {
            refuse_old_manifest(runs.tables(), &manifest, &catalog, &waiting)
        })?;
        // Here the manifest and the log are read and whole, the formats of all files that open are
        // known, and nothing is written yet: an upgrade of a format would go here.
        if access == Access::Write {
            if let Some(mark) = manifest.state().backup {
                // Without the mark these segments would continue the log.
                wal::remove_segments(&*disk, dir, mark.wal_end)?;
            }
            mutation::unless(Mutation::TrustUnsyncedManifest, || manifest.settle())?;
            let floor = manifest.state().wal_floor;
            recovered.settle(&*disk, dir, floor)?;
            record_damaged(&mut manifest, damaged)?;
            forget_uncovered(&mut manifest, &mut catalog, &snapshots)?;
            // Without the runs of the tables that are forgotten now.
            let waiting = waiting_runs(&catalog);
            let waiting = mutation::replace(waiting, Mutation::RemoveWaitingRuns, Vec::new());
            remove_orphans(&*disk, dir, runs.tables(), &manifest, &waiting)?;
        }
        // New records go into a new segment, never behind those that were read.
        let next_segment = recovered
            .segments
            .last()
            .map_or(manifest.state().wal_floor, |(last, _)| last.next());
        // For the statistics. If this fails, the first look for a file to check tries again.
        let check_record = CheckRecord::read(&*disk, dir).ok().flatten();
        let wal_bytes_replayed = recovered.segments.iter().map(|(_, bytes)| bytes).sum();
        // Commits wait for a new segment, so its calls wait only briefly for a file descriptor.
        let log_disk = patient.for_log();
        let wal = Wal::new(
            Arc::new(log_disk.clone()),
            dir,
            options
                .wal_segment_bytes
                .min(options.wal_bytes_max / WAL_SEGMENTS_MIN),
            recovered.segments,
            next_segment,
            recovered.end,
        );
        let events = Arc::<EventListeners>::default();
        wal.on_event({
            let events = Arc::clone(&events);
            move |event| match event {
                WalEvent::Failed(cause) => events.tell_of_stop(cause),
                WalEvent::DiskFull(path) => {
                    events.tell_of_space(Shortage::Log, Some(path));
                }
                WalEvent::DiskFreed => {
                    events.tell_of_space(Shortage::Log, None);
                }
            }
        });
        // Until here, a call that gets no descriptor keeps the database from opening; from here on,
        // calls that write wait for one.
        open_files.enter(Stage::Open);
        let engine = Arc::new(Self {
            id,
            dir: dir.to_path_buf(),
            runs,
            log_disk,
            open_files,
            disk_watch: DiskWatch::new(disk_calls),
            chunks,
            memtable_memory: MemtableMemory::new(
                options.memtables_bytes(),
                options.frozen_memtables_max,
            ),
            queue: CommitQueue::new(last_seq),
            groups: Groups::new(),
            conflicts: Conflicts::new(),
            wal,
            wal_bytes_replayed,
            snapshot_ops: Mutex::new(last_snapshot_id),
            snapshots,
            events,
            group_listeners: Default::default(),
            catalog: RwLock::new(catalog),
            ingesting: Mutex::default(),
            reserve: Reserve::new(dir, manifest.id()),
            low_water: LowWater::new(options.low_water_bytes, manifest.bytes()),
            manifest: Mutex::new(manifest),
            clock: MonotonicClock::new(options.clock.clone()),
            counters: Counters::default(),
            metering: Arc::default(),
            signal: Default::default(),
            write_stall: WriteStall::new(options.memtable_bytes / TOKENS_MAX_FRACTION),
            failures: Mutex::default(),
            flushing: Mutex::default(),
            flush_round: FlushRound::default(),
            reopening: Mutex::default(),
            claims: Claims::new(
                options.compaction.threads,
                options.compaction.long_merge_bytes,
            ),
            merges: MergesUnderWay::default(),
            merge_pauses: MergePauses::default(),
            idle: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            access,
            check_record: Mutex::new(check_record),
            checking_file: Mutex::default(),
            backups: AtomicU64::new(0),
            backup_files: Default::default(),
            unmergeable: Default::default(),
            options,
            _lock: lock,
        });
        engine.leave_out_unreadable();
        engine.hold_spares();
        Ok(engine)
    }
}

/// Returns the last sequence number that was used: the larger of those in the WAL and in the
/// manifest, because each of them may have lost its tail and no number may be used twice.
fn last_seq(in_wal: SeqNo, in_manifest: SeqNo) -> SeqNo {
    let last = in_wal.max(in_manifest);
    let last = mutation::replace(last, Mutation::SequenceFromWalAlone, in_wal);
    mutation::replace(last, Mutation::SequenceFromManifestAlone, in_manifest)
}

/// Refuses a directory that has segments of the log or SSTables. The caller has found no CURRENT in
/// it, so it is a damaged database: a new database in this directory would remove the data as
/// orphans.
fn refuse_headless(disk: &dyn Disk, dir: &Path, tables: &dyn TableStore) -> Result<()> {
    let paths = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        paths => paths.map_err(Error::io("list", dir))?,
    };
    let mut logs = paths
        .into_iter()
        .filter(|path| matches!(FileKind::of(path), Some(FileKind::Wal(_))));
    let listed = tables.list().map_err(Error::io("list", dir))?;
    let table = || listed.first().map(|&number| tables.name(number));
    match logs.next().or_else(table) {
        None => Ok(()),
        Some(path) => {
            let detail = format!("it is missing, though {} is there", path.display());
            Err(Error::corruption(&files::current(dir), 0, detail))
        }
    }
}

/// Returns an error if the manifest may have lost its last edits. Such a manifest names files that
/// merges have removed since, and does not name the files that the merges wrote: the opening would
/// remove these as orphans. So the opening is refused if a named file is missing and there is an
/// orphan. This also refuses an intact manifest if the file is missing for another reason and a
/// crash left the orphan, because the two cases look alike. If a file is missing and there is no
/// orphan, the opening goes on without the file.
fn refuse_old_manifest(
    tables: &dyn TableStore,
    manifest: &Manifest,
    catalog: &Catalog,
    waiting: &[RunMeta],
) -> Result<()> {
    let versions: Vec<_> = catalog.tables().map(|table| table.version()).collect();
    let unreadable = (versions.iter())
        .flat_map(|version| version.all_runs())
        .flat_map(|run| run.unreadable());
    let mut missing = unreadable.filter(|(_, error)| error.is_of_missing_file());
    let Some((missing, _)) = missing.next() else {
        return Ok(());
    };
    let named = named_files(manifest, waiting);
    let missing = tables.name(missing.number.0);
    let listed = (tables.list()).map_err(Error::io("list the files beside", &missing))?;
    let mut unnamed = (listed.into_iter()).filter(|number| !named.contains(&FileNumber(*number)));
    let Some(unnamed) = unnamed.next().map(|number| tables.name(number)) else {
        return Ok(());
    };
    let detail = format!(
        "it is missing, and the manifest does not name {}, which an opening would remove; if the \
         manifest has lost its end, use ebb repair; otherwise a crash left that file: put the \
         missing one back",
        unnamed.display()
    );
    Err(Error::corruption(&missing, 0, detail))
}

/// Returns the numbers of the SSTables that the manifest names, and of the SSTables of the runs in
/// `waiting`. These are ingested runs that the manifest does not name yet: it names an ingested run
/// only once all older memtables are flushed.
fn named_files(manifest: &Manifest, waiting: &[RunMeta]) -> HashSet<FileNumber> {
    let runs = manifest.state().runs().chain(waiting);
    runs.flat_map(RunMeta::numbers).collect()
}

/// Returns the tables of a state, and the edits of the manifest that record the files that were
/// found damaged.
fn open_tables(
    database: u64,
    chunks: &Arc<ChunkPool>,
    runs: &RunStore,
    operators: &MergeOperators,
    state: &State,
) -> Result<(Catalog, Vec<Edit>)> {
    let mut catalog = Catalog::default();
    let mut damaged = Vec::new();
    for keyspace in &state.keyspaces {
        catalog.add_keyspace(keyspace);
    }
    for meta in state.tables.values() {
        let mut met = |file, found: &Quarantine| {
            damaged.push(Edit::Quarantine {
                table: meta.id,
                file,
                quarantine: found.clone(),
            });
        };
        let open = |meta: &RunMeta| runs.open_run(meta, &mut met);
        let runs = meta.runs.iter().map(open).collect::<Result<_>>()?;
        let operator = meta.options.merge_operator.as_deref();
        let operator = operator.and_then(|name| operators.get(name));
        let memtable = Memtable::new(chunks.clone()).with_operator(operator);
        let version = TableVersion::new(memtable, runs);
        let name = (meta.keyspace.as_str(), meta.name.as_str());
        let table = TableCore::new(
            database,
            meta.id,
            name,
            meta.lifetime,
            meta.options.clone(),
            operators,
            version,
        );
        catalog.add_table(table);
    }
    if !mutation::is(Mutation::ReuseTableIds) {
        catalog.raise_last_table_id(state.last_table_id);
    }
    Ok((catalog, damaged))
}

/// Records in the manifest the files that were found damaged when they were opened. Ends early if
/// an edit finds no space: the next opening finds the same files.
fn record_damaged(manifest: &mut Manifest, edits: Vec<Edit>) -> Result<()> {
    for edit in edits {
        match manifest.commit(edit) {
            Err(Error::DiskFull { .. }) => break,
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Forgets the dropped tables whose last snapshot was deleted in the part of the log that was
/// replayed. The replay has made that part durable.
fn forget_uncovered(
    manifest: &mut Manifest,
    catalog: &mut Catalog,
    snapshots: &SnapshotRegistry,
) -> Result<()> {
    let covered = |table: &&Arc<TableCore>| snapshots.covers(table.span());
    let uncovered = catalog.dropped().filter(|table| !covered(table));
    let forgotten: Vec<_> = uncovered.map(|table| table.id).collect();
    if forgotten.is_empty() || mutation::is(Mutation::KeepUncoveredTables) {
        return Ok(());
    }
    let recorded = manifest.state().bookmarks.as_of;
    let forgets = manifest.commit(Edit::DropTables {
        kept: Vec::new(),
        forgotten: forgotten.clone(),
        snapshots: Some(snapshots.changes(recorded, snapshots.as_of())),
    });
    match forgets {
        Ok(()) => {}
        // A full disk must not keep a database from being read. The next deletion
        // of a snapshot, or the next opening, tries again.
        Err(Error::DiskFull { .. }) => return Ok(()),
        Err(e) => return Err(e),
    }
    for id in forgotten {
        catalog.forget_table(id);
    }
    // No reader has them yet.
    for table in catalog.take_unread() {
        table.discard();
    }
    Ok(())
}

/// Returns the ingested runs that the log names and the manifest does not yet.
fn waiting_runs(catalog: &Catalog) -> Vec<RunMeta> {
    let runs = |table: &Arc<TableCore>| -> Vec<_> {
        let version = table.version();
        let runs = version.waiting_runs().map(|run| run.meta().clone());
        runs.collect()
    };
    catalog.tables().flat_map(runs).collect()
}

/// Removes the files that a crash left: SSTables that neither the manifest nor `waiting` names, log
/// segments and manifests that are no longer needed, temporary files, and the links of a backup.
fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    tables: &dyn TableStore,
    manifest: &Manifest,
    waiting: &[RunMeta],
) -> Result<()> {
    let state = manifest.state();
    let live = named_files(manifest, waiting);
    if mutation::is(Mutation::KeepOrphans) {
        return Ok(());
    }
    for number in tables.list().map_err(Error::io("list", dir))? {
        if !live.contains(&FileNumber(number)) {
            removed(tables.delete(number), &tables.name(number))?;
        }
    }
    for path in disk.list(dir).map_err(Error::io("list", dir))? {
        if files::is_backup_links(&path) {
            // If this fails, the next opening tries again. Nothing needs the space until then.
            let _ = LinkFolder::remove(disk, &path);
            continue;
        }
        let orphan = match FileKind::of(&path) {
            Some(FileKind::Wal(number)) => number < state.wal_floor,
            Some(FileKind::Manifest(number)) => {
                manifest.current().is_some_and(|live| live != number)
            }
            Some(FileKind::Temporary) => true,
            // With another table store, an SSTable in the directory does not belong to the
            // database.
            Some(FileKind::SsTable(_)) | None => false,
        };
        if orphan {
            removed(disk.remove(&path), &path)?;
        }
    }
    Ok(())
}

/// Returns the outcome of removing an orphan. If the removal finds no space, the orphan stays until
/// the next opening.
fn removed(outcome: io::Result<()>, path: &Path) -> Result<()> {
    match file_system::gone(outcome).map_err(Error::no_space_or_io("remove", path)) {
        Err(Error::DiskFull { .. }) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;
    use crate::{Db, Maintenance, Options};

    /// Regression: a snapshot was deleted to free a full disk, and the table that only it had kept
    /// could not be forgotten. The next opening tried, found no space for it either, and gave up:
    /// the database could not even be read.
    #[test]
    fn a_table_that_cannot_be_forgotten_on_a_full_disk_is_no_hindrance() {
        let mem = MemDisk::new();
        let options = Options {
            disk: std::sync::Arc::new(mem.clone()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let db = Db::open("/db", options.clone()).unwrap();
        let app = db.keyspace("app").unwrap();
        let [old, other] = ["old", "other"].map(|name| app.table(name, Default::default()));
        old.unwrap().put(b"k", b"v").unwrap();
        other.unwrap().put(b"k", b"v").unwrap();
        db.flush().unwrap();
        app.create_snapshot("s").unwrap();
        app.drop_table("old").unwrap();
        // Room for the commit, and not for an edit of the manifest.
        mem.set_capacity_bytes(Some(mem.used_bytes() + 100));
        app.delete_snapshot("s").unwrap();
        drop((app, db));
        let sstables = || {
            let files = mem.list("/db".as_ref()).unwrap().into_iter();
            files.filter(|path| path.extension().is_some_and(|ext| ext == "sst"))
        };

        let db = Db::open("/db", options.clone()).unwrap();
        let app = db.existing_keyspace("app").unwrap();
        let other = app.existing_table("other").unwrap();
        assert_eq!(other.get(b"k").unwrap().unwrap(), "v");
        assert_eq!(sstables().count(), 2);
        drop((other, app, db));

        mem.set_capacity_bytes(None);
        let db = Db::open("/db", options).unwrap();
        assert_eq!(sstables().count(), 1);
        drop(db);
    }
}
