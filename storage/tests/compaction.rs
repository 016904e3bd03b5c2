//! Merges: pickers of one's own, merges beside each other, and space that comes
//! back when a snapshot goes.

mod common;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use common::hooked_disk::{Call, HookedDisk, is_sstable};
use common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    CompactionOptions, CompactionPicker, Compression, Db, Durability, Error, Keyspace, Maintenance,
    Options, Pick, Reason, RunShape, SsTableOptions, Stats, Table, TableOptions, TableShape,
};

fn open(options: Options) -> (Db, Keyspace, Table) {
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let sstable = SsTableOptions {
        compression: Compression::None,
        ..SsTableOptions::default()
    };
    let table = keyspace.table("users", table_options(sstable)).unwrap();
    (db, keyspace, table)
}

fn table_options(sstable: SsTableOptions) -> TableOptions {
    TableOptions {
        sstable,
        ..TableOptions::default()
    }
}

fn options(mem: &MemDisk, maintenance: Maintenance) -> Options {
    Options {
        durability: Durability::Os,
        memtable_bytes: 1 << 20,
        maintenance,
        ..manual(mem)
    }
}

fn fill(table: &Table, keys: u32, value: u8) {
    for i in 0..keys {
        table
            .put(format!("{i:03}").as_bytes(), &[value; 100])
            .unwrap();
    }
}

/// What was kept for a snapshot stayed when it was deleted, until writes made
/// the run worth a merge: in an idle database for ever.
#[test]
fn an_idle_database_gives_the_space_of_a_deleted_snapshot_back() {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(options(&mem, Maintenance::Background));
        fill(&table, 200, 1);
        db.flush().unwrap();
        let without = db.stats().tables[0].file_bytes;
        fill(&table, 200, 2);
        keyspace.create_snapshot("s").unwrap();
        fill(&table, 100, 3);
        fill(&table, 100, 4);
        db.flush().unwrap();
        db.compact().unwrap();
        let with = db.stats().tables[0].clone();
        assert_eq!(with.versions, 200 + 100);
        assert!(with.file_bytes > without * 5 / 4);

        assert!(with.kept_bytes > without / 4 && with.garbage_bytes == 0);
        assert!(with.space_amplification > 1.25);

        keyspace.delete_snapshot("s").unwrap();
        while db.stats().tables[0].versions > 200 {
            thread::yield_now();
        }
        assert!(db.stats().tables[0].file_bytes <= without * 11 / 10);
        // What is rewritten is no garbage any more.
        db.compact().unwrap();
        let merges = db.stats().compactions;
        db.compact().unwrap();
        assert_eq!(db.stats().compactions, merges);

        // The same with what a view sees.
        let view = db.view();
        fill(&table, 200, 5);
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(db.stats().tables[0].versions, 400);
        drop(view);
        while db.stats().tables[0].versions > 200 {
            thread::yield_now();
        }
        done.send(()).unwrap();
    });
    let outcome = outcome.recv_timeout(Duration::from_secs(60));
    outcome.expect("space does not come back, or the thread panicked");
}

/// What snapshots that share versions keep is garbage when the last one goes.
#[test]
fn a_version_that_another_snapshot_needs_is_no_garbage() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(options(&mem, Maintenance::Manual));
    fill(&table, 200, 1);
    for name in ["a", "b", "c"] {
        keyspace.create_snapshot(name).unwrap();
        table.put(name.as_bytes(), b"").unwrap();
    }
    fill(&table, 200, 2);
    db.flush().unwrap();
    for (name, versions) in [("b", 403), ("a", 403), ("c", 203)] {
        keyspace.delete_snapshot(name).unwrap();
        db.compact().unwrap();
        assert_eq!(db.stats().tables[0].versions, versions, "after {name}");
    }
    assert_eq!(db.stats().compactions, 1);
    // Also when it goes while the database is closed.
    fill(&table, 200, 3);
    keyspace.create_snapshot("d").unwrap();
    fill(&table, 200, 4);
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].versions, 403);
    keyspace.delete_snapshot("d").unwrap();
    drop((db, keyspace, table));
    let (db, _keyspace, _table) = open(options(&mem, Maintenance::Manual));
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].versions, 203);
}

/// A flush did not count what it keeps for a snapshot below a range tombstone, as a
/// merge does. When the snapshot went, nothing of the run was known to be garbage,
/// and the space of a truncated table stayed taken.
#[test]
fn what_a_flush_keeps_under_a_range_tombstone_comes_back_with_its_snapshot() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(options(&mem, Maintenance::Manual));
    fill(&table, 200, 1);
    keyspace.create_snapshot("s").unwrap();
    table.delete_range::<&[u8], _>(..).unwrap();
    db.flush().unwrap();
    let stats = db.stats().tables[0].clone();
    assert!(stats.kept_bytes > stats.file_bytes * 9 / 10, "{stats:?}");
    keyspace.delete_snapshot("s").unwrap();
    assert!(db.stats().tables[0].garbage_bytes > 0);
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!((stats.tables[0].file_bytes, stats.compactions), (0, 1));
}

/// Merges the pairs of a list of four that were flushed with some fifty commits
/// each.
#[derive(Debug, Default)]
struct Pairs {
    on: AtomicBool,
}

impl CompactionPicker for Pairs {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_flushed = |run: &RunShape| run.largest_seq.0 - run.smallest_seq.0 < 70;
        let is_pair = |pair: &[RunShape]| pair.iter().all(|run| !run.is_busy && is_flushed(run));
        let at = table.runs.windows(2).position(is_pair)?;
        let pair = Pick::merge(&table.runs[at..at + 2], Reason::Count);
        self.on.load(Ordering::Relaxed).then_some(pair)
    }
}

/// Neither merge can end before the other has begun.
#[test]
fn two_merges_of_one_table_go_on_beside_each_other() {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        let mem = MemDisk::new();
        let picker = Arc::new(Pairs::default());
        let both = Barrier::new(2);
        let merges = picker.clone();
        let disk = HookedDisk::new(&mem, move |call, path| {
            let is_merge = call == Call::Create && is_sstable(path);
            if is_merge && merges.on.load(Ordering::Relaxed) {
                both.wait();
            }
            Ok(())
        });
        let (db, _keyspace, table) = open(Options {
            disk: Arc::new(disk),
            compaction: CompactionOptions {
                picker: picker.clone(),
                threads: 2,
                ..CompactionOptions::default()
            },
            ..options(&mem, Maintenance::Background)
        });
        for round in 0..4 {
            fill(&table, 50 + round, round as u8);
            table.delete(format!("{round:03}").as_bytes()).unwrap();
            db.flush().unwrap();
        }
        let expected = content(table.range::<&[u8], _>(..)).unwrap();
        assert_eq!(db.stats().tables[0].runs.len(), 4);
        picker.on.store(true, Ordering::Relaxed);
        // Waits for the other merge, too.
        db.compact().unwrap();
        let stats = db.stats();
        assert_eq!((stats.compactions, stats.tables[0].runs.len()), (2, 2));
        assert_eq!(content(table.range::<&[u8], _>(..)).unwrap(), expected);
        db.verify().unwrap();
        assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
        done.send(()).unwrap();
    });
    let outcome = outcome.recv_timeout(Duration::from_secs(60));
    outcome.expect("merges wait for each other, or the thread panicked");
}

#[test]
fn what_is_written_read_and_left_to_merge_is_counted() {
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(options(&mem, Maintenance::Manual));
    for value in 0..4 {
        fill(&table, 100, value);
        db.flush().unwrap();
    }
    let before = db.stats();
    assert_eq!(before.user_bytes_written, 4 * 100 * 103);
    // Each record is a header of 28 bytes and a payload.
    assert!(before.wal_bytes_written > before.user_bytes_written + 400 * 28);
    assert!(before.write_amplification > 2.0 && before.write_amplification < 3.0);
    let file_bytes = before.tables[0].file_bytes;
    assert_eq!(before.compaction_debt_bytes, file_bytes);
    table.get(b"007").unwrap().unwrap();
    assert_eq!(db.stats().runs_per_read, 1.0);
    table.put(b"in memory", b"").unwrap();
    table.get(b"in memory").unwrap().unwrap();
    let stats = db.stats();
    assert_eq!(stats.reads_by_runs.len(), Stats::READS_BY_RUNS);
    assert_eq!(
        (stats.reads, &stats.reads_by_runs[..3]),
        (2, &[1, 1, 0][..])
    );

    db.compact().unwrap();
    let after = db.stats();
    assert_eq!(after.compaction_read_bytes, file_bytes);
    assert_eq!(after.compaction_bytes, after.tables[0].file_bytes);
    assert_eq!(
        (after.compaction_debt_bytes, after.compactions_running),
        (0, 0)
    );
    assert_eq!(after.tables[0].space_amplification, 1.0);
}

/// After a failure merges were still tried, though none could be installed, and two
/// threads woke each other for the one that failed for ever.
#[test]
fn after_a_failure_nothing_is_merged_that_could_not_be_installed() {
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(options(&mem, Maintenance::Manual));
    for value in 0..2 {
        fill(&table, 100, value);
        db.flush().unwrap();
    }
    mem.fail_next(FaultOp::Sync, 1, io::ErrorKind::Other);
    table.put(b"k", b"v").unwrap();
    db.sync().unwrap_err();
    let before = mem.io_calls();
    assert!(matches!(db.compact(), Err(Error::ReadOnly { .. })));
    assert_eq!(mem.io_calls(), before);
    assert_eq!(db.stats().tables[0].runs.len(), 2);
    assert_eq!(content(table.range::<&[u8], _>(..)).unwrap().len(), 101);
}

/// Blocks of files that had gone kept those of their successor out of the cache, the more
/// the more often they had been read.
#[test]
fn blocks_of_files_that_went_leave_the_cache() {
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(options(&mem, Maintenance::Manual));
    let read = || (0..100).for_each(|i| drop(table.get(format!("{i:03}").as_bytes()).unwrap()));
    for value in 0..2 {
        fill(&table, 100, value);
        db.flush().unwrap();
        read();
    }
    assert!(db.stats().cache_bytes > 0);
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].runs.len(), 1);
    assert_eq!(db.stats().cache_bytes, 0);
    read();
    assert!(db.stats().cache_bytes > 0);
}
