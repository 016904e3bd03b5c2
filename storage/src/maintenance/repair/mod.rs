//! Repair: all that can still be read of a damaged database, in a new one.
//!
//! ```text
//!   manifest ──► tables, which files count, snapshots
//!   SSTables ──► versions, block by block ──┐
//!   WAL      ──► versions, record by record ┴─► one run per table ─► new manifest
//! ```
//!
//! Every version keeps its sequence number, and is dropped only if a newer file replaces it
//! ([`replaced`]): so readers get the newest version of each key, in whichever file it was found,
//! and a snapshot shows what it showed before. The source is only read.
//!
//! Recovered values are never wrong, but may be old: where a version is lost, an older one of
//! the same key comes up. The report names every part that was lost, with its keys as far as
//! they are known.

mod names;
mod reading;
mod replaced;
mod report;
mod source;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use reading::Reading;
use replaced::Replaced;
pub use report::{Lost, RepairReport, RepairedTable};
use source::{Source, SourceTable};

use crate::db::{Access, Engine};
use crate::error::Result;
use crate::key::{FileNumber, Kind, NUMBER_MAX, RunId, SeqNo, Version};
use crate::log_store;
use crate::maintenance::db_files::DbFiles;
use crate::maintenance::new_dir::NewDir;
use crate::maintenance::progress::MaintenanceProgress;
use crate::manifest::{Manifest, State, TableMeta};
use crate::options::{Maintenance, Options};
use crate::runs::RunBuilder;
use crate::sstable::{KeyVersion, Origin};

/// Saves what can be read of the database in `from` into the directory `to`, which must be missing
/// or empty. `from` is only read. Calls `progress` with the number of bytes read of `from` so far: an
/// SSTable counts twice, since it is read once for its metadata and once for its versions. Damaged
/// parts are not read, so the last number may be below the total.
///
/// # Errors
/// - [`Error::NoDatabase`](crate::Error::NoDatabase) if `from` contains no database.
/// - [`Error::BeingWritten`](crate::Error::BeingWritten) if the database in `from` is open for writing.
/// - [`Error::Incomplete`](crate::Error::Incomplete) if `from` is what an interrupted backup or
///   repair left.
/// - [`Error::InvalidRequest`](crate::Error::InvalidRequest) if `to` is not empty.
/// - [`Error::DiskFull`](crate::Error::DiskFull) if there is no space for the new database.
/// - [`Error::UnsupportedFormat`](crate::Error::UnsupportedFormat) for undamaged files of a format
///   version that this build does not know: the build that wrote them can read them.
/// - [`Error::Io`](crate::Error::Io), also for a file that the user of the process may not open, and
///   if `from` was moved or replaced while it was read.
///
/// Damage is no error; the report lists it.
pub fn repair(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &Options,
    progress: &mut dyn FnMut(MaintenanceProgress),
) -> Result<RepairReport> {
    let (from, to, disk) = (from.as_ref(), to.as_ref(), &options.disk);
    let (files, lock) = DbFiles::lock(&**disk, &*options.tables(from), from)?;
    let tables = options.tables(from);
    let reading = Rc::new(Reading::of(&files, &*tables));
    let operators = &options.merge_operators;
    let source = Source::read(
        &**disk,
        &*tables,
        from,
        &files,
        operators,
        (&reading, progress),
    )?;
    // All files are open now, and are not opened again.
    log_store::check_in_place(lock.as_deref(), from)?;
    // Only now: a source that is refused leaves no directory behind.
    let target = NewDir::claim(disk.clone(), to)?;
    let mut report = RepairReport {
        snapshots: source.state.bookmarks.list.len() as u64,
        lost: source.lost,
        ..RepairReport::default()
    };

    let mut state = State {
        keyspaces: source.state.keyspaces,
        bookmarks: source.state.bookmarks,
        last_table_id: source.state.last_table_id,
        ..State::default()
    };
    let engine = {
        let options = Options {
            maintenance: Maintenance::Manual,
            // The new tables lie in `to`: a store is of one database only, and that of `from` has
            // the damaged tables.
            table_store: None,
            ..options.clone()
        };
        // The engine only writes runs. `NewDir::complete` writes the manifest once all are there.
        let manifest = Manifest::unwritten(disk.clone(), to, State::default());
        // Without a lock, because `target` holds that of the directory.
        Engine::recover(to, options.for_engine(), manifest, None, Access::Write)?
    };
    // Nothing is named yet, so no number needs to be reserved.
    let first = FileNumber::default();
    engine
        .runs
        .number_from(first, FileNumber(NUMBER_MAX), RunId(1));
    for table in source.tables {
        let (meta, has_operands) =
            write_table(&engine, table, source.last_seq, &mut report, &mut || {
                reading.report(progress);
            })?;
        if has_operands && meta.options.merge_operator.is_none() {
            let lost = report::unknown_operator(from, &meta, &report.lost);
            report.lost.push(lost);
        }
        state.tables.insert(meta.id, meta);
    }
    report.snapshots_incomplete = report::incomplete_snapshots(&state, &report.lost);
    state.files_below = engine.runs.files_below();
    // First: the drop may remove files, and `complete` unlocks the directory.
    drop(engine);
    target.complete(state)?;
    Ok(report)
}

/// Writes the versions of a table as one run, without those that a newer source replaces. Returns the
/// table for the new manifest, and whether there are merge operands among the versions. `last_seq` is
/// the largest sequence number of the database. Calls `read_on` after each key.
fn write_table(
    engine: &Engine,
    table: SourceTable,
    last_seq: SeqNo,
    report: &mut RepairReport,
    read_on: &mut dyn FnMut(),
) -> Result<(TableMeta, bool)> {
    let SourceTable {
        mut meta,
        sources,
        tombstones,
    } = table;
    // The run has all that is left of the table, so no older file and no log adds to it.
    let origin = Origin {
        keyspace: meta.keyspace.clone(),
        table: meta.name.clone(),
        created_after: meta.lifetime.created_after,
        smallest_seq: SeqNo::ZERO,
        largest_seq: last_seq,
        keys: None,
        merge_operator: meta.options.merge_operator.clone(),
    };
    // In the form of the oldest run, as it is the only one. Without the merge operator, which may not
    // be known here, timestamps are recorded as unknown: then nothing is purged that they decide.
    let mut builder = RunBuilder::new(
        (&engine.runs, engine),
        meta.id,
        meta.options.sstable.of_run(true),
        origin,
        None,
    );
    let (extents, versions) = sources.into_iter().unzip();
    let replaced = Replaced::new(extents);
    let mut merge = Sources::new(versions)?;
    // An empty range at first, which each version widens.
    let (mut smallest, mut largest) = (last_seq, SeqNo::ZERO);
    let (mut written, mut has_operands) = (0, false);
    let (mut of_key, mut with_key) = (Vec::new(), Vec::new());
    while let Some(key) = merge.next_key(&mut of_key)? {
        with_key.clear();
        with_key.extend(of_key.iter().map(|(source, _)| *source));
        let mut before = None;
        for (source, version) in of_key.drain(..) {
            // Two sources may have the same version, such as the log and the file of a flush.
            if before == Some(version.seq) || !replaced.counts(&key, version.seq, source, &with_key)
            {
                continue;
            }
            builder.add(&key, &version)?;
            has_operands |= version.kind == Kind::Merge;
            smallest = smallest.min(version.seq);
            largest = largest.max(version.seq);
            before = Some(version.seq);
            written += 1;
            report.versions += 1;
        }
        read_on();
    }
    for seq in tombstones.seqs() {
        smallest = smallest.min(seq);
        largest = largest.max(seq);
    }
    let run = builder.finish((smallest, largest), tombstones, None)?;
    engine.runs.finish_runs(&run)?;
    report.bytes += run.as_ref().map_or(0, |run| run.meta().bytes());
    report.tables.push(RepairedTable {
        keyspace: meta.keyspace.clone(),
        name: meta.name.clone(),
        versions: written,
    });
    meta.runs = run.iter().map(|run| run.meta().clone()).collect();
    // The run has the log's versions, too, and the new database begins without a log.
    meta.flushed_seq = last_seq;
    Ok((meta, has_operands))
}

/// Versions with their keys, sorted by key, and the versions of a key newest first.
type Versions = Box<dyn Iterator<Item = Result<KeyVersion>>>;

/// The key by which the merge sorts the next version of a source: the user key, the sequence number
/// (newest first), and the rank of the source.
type Place = (Bytes, Reverse<SeqNo>, usize);

/// A merge of sorted sources. Of versions with the same key and sequence number, the one of the
/// earlier source comes first.
#[derive(Default)]
struct Sources {
    /// The next version of each source, with the iterator over the source's later versions.
    heads: BTreeMap<Place, (Version, Versions)>,
}

impl Sources {
    fn new(sources: Vec<Versions>) -> Result<Self> {
        let mut all = Self::default();
        for (rank, source) in sources.into_iter().enumerate() {
            all.add(rank, source)?;
        }
        Ok(all)
    }

    fn add(&mut self, rank: usize, mut source: Versions) -> Result<()> {
        if let Some((key, version)) = source.next().transpose()? {
            let place = (key, Reverse(version.seq), rank);
            self.heads.insert(place, (version, source));
        }
        Ok(())
    }

    /// Returns the next key, and adds all its versions to `versions`, newest first, each with the
    /// rank of its source (its position among the sources). `None` if all sources are at their end.
    fn next_key(&mut self, versions: &mut Vec<(usize, Version)>) -> Result<Option<Bytes>> {
        let Some(((key, ..), _)) = self.heads.first_key_value() else {
            return Ok(None);
        };
        let key = key.clone();
        while let Some(head) = self.heads.first_entry().filter(|head| head.key().0 == key) {
            let ((_, _, rank), (version, rest)) = head.remove_entry();
            versions.push((rank, version));
            self.add(rank, rest)?;
        }
        Ok(Some(key))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Db;
    use crate::commit::encode_snapshot;
    use crate::key::FileNumber;
    use crate::simulation::MemDisk;
    use crate::snapshots::SnapshotOp;
    use crate::wal::{Lsn, Wal};

    /// Regression: a table id and a snapshot id at the end of their ranges, in commits with good
    /// checksums, were copied to the new database, which then could not be opened.
    #[test]
    fn a_repaired_database_opens_whatever_numbers_the_log_names() {
        let options = Options {
            disk: Arc::new(MemDisk::new()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let db = Db::open("/from", options.clone()).unwrap();
        let app = db.keyspace("app").unwrap();
        let table = app.table("t", Default::default()).unwrap();
        table.put(b"k", b"v").unwrap();
        drop((table, app, db));
        let dir = Path::new("/from");
        let next = FileNumber(2);
        let wal = Wal::new(options.disk.clone(), dir, 1 << 20, Vec::new(), next, Lsn(0));
        let delete_in_last_table = [2, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, b'k'];
        let delete_last_snapshot = encode_snapshot(&SnapshotOp::Delete(u64::MAX));
        let position = wal.push(SeqNo(100), 1, &delete_last_snapshot);
        wal.write_to(position).unwrap();
        let position = wal.push(SeqNo(101), 1, &delete_in_last_table);
        wal.write_to(position).unwrap();

        repair(dir, "/to", &options, &mut |_| ()).unwrap();
        let db = Db::open("/to", options).unwrap();
        let app = db.existing_keyspace("app").unwrap();
        assert_eq!(app.tables(), ["t"]);
        let found = app.existing_table("t").unwrap().get(b"k").unwrap();
        assert_eq!(found.unwrap(), "v");
    }
}
