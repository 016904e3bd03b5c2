//! Merges: pickers of one's own, merges beside each other, and space that becomes free when a
//! snapshot is deleted.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::common::hooked_disk::{Call, Door, HookedDisk, is_sstable};
use crate::common::one_table::uncompressed;
use crate::common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, Durability, Error, Keyspace, Maintenance,
    MergeOperator, MergeOperators, Options, Pick, RunShape, Stats, Table, TableOptions, TableShape,
    TieredPicker, WriteBatch,
};

fn open(options: Options) -> (Db, Keyspace, Table) {
    one_table::open(options, uncompressed())
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
        let key = format!("{i:03}");
        table.put(key.as_bytes(), &[value; 100]).unwrap();
    }
}

/// Regression: versions that only a deleted snapshot needed stayed until writes made the run worth
/// a merge: in an idle database for ever.
#[test]
fn an_idle_database_gives_the_space_of_a_deleted_snapshot_back() {
    must_end(|| {
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
        let info = &keyspace.snapshots()[0];
        assert_eq!(
            (info.files, info.pinned_bytes),
            (with.files, with.kept_bytes)
        );

        keyspace.delete_snapshot("s").unwrap();
        let has_shrunk = || db.stats().tables[0].versions <= 200;
        until("the space of the snapshot to come back", has_shrunk);
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
        until("the space of the view to come back", has_shrunk);
    });
}

/// Writes rows in one commit: a database may become idle between two commits, never within one.
fn write_rows(db: &Db, table: &Table, keys: u32, value: u8) {
    let mut batch = WriteBatch::new();
    for i in 0..keys {
        batch.put(table, format!("{i:03}").as_bytes(), &[value; 100]);
    }
    db.write(batch).unwrap();
}

#[test]
fn an_idle_database_flushes_its_memtable_trims_its_log_and_merges_its_garbage() {
    must_end(|| {
        let options = |maintenance, idle_after| Options {
            idle_after,
            compaction: CompactionOptions::default(),
            ..options(&MemDisk::new(), maintenance)
        };
        // Too little garbage for a merge in a busy database.
        let (db, _keyspace, table) = open(options(Maintenance::Manual, None));
        for (keys, value) in [(200, 1), (80, 2)] {
            write_rows(&db, &table, keys, value);
            db.flush().unwrap();
        }
        db.compact().unwrap();
        assert_eq!(db.stats().tables[0].versions, 280);

        let idle_after = Some(Duration::from_millis(1));
        let (db, _keyspace, table) = open(options(Maintenance::Background, idle_after));
        write_rows(&db, &table, 200, 1);
        db.flush().unwrap();
        write_rows(&db, &table, 80, 2);
        let is_flushed = || db.stats().tables[0].memtable_bytes == 0;
        until("the memtable to be flushed", is_flushed);
        // The open segment stays, without a record.
        let is_trimmed = || {
            let stats = db.stats();
            stats.wal_segments == 1 && stats.wal_bytes < 100
        };
        until("the log to be trimmed", is_trimmed);
        let is_merged = || db.stats().tables[0].versions == 200;
        until("the garbage to be merged", is_merged);
        for (key, value) in [("000", 2_u8), ("079", 2), ("080", 1), ("199", 1)] {
            let found = table.get(key.as_bytes()).unwrap().unwrap();
            assert_eq!(found, [value; 100][..], "{key}");
        }
    });
}

/// A version that several snapshots read is garbage only once all of them are deleted.
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
        let pinned = keyspace
            .snapshots()
            .into_iter()
            .map(|info| info.pinned_bytes);
        assert_eq!(pinned.sum::<u64>() > 0, name == "c", "while others need it");
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

/// Regression: a flush, unlike a merge, did not count the versions that a range tombstone hides and
/// that it keeps only for a snapshot. When the snapshot was deleted, these versions were not known
/// to be garbage, so the space of a truncated table was not freed.
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

/// A picker that, while `on`, merges pairs of neighbouring runs that flushes wrote. It recognizes
/// these runs by the number of their commits: a flushed run has some fifty, and a merged one has
/// more.
#[derive(Debug, Default)]
struct Pairs {
    on: AtomicBool,
}

impl CompactionPicker for Pairs {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_flushed = |run: &RunShape| run.largest_seq.0 - run.smallest_seq.0 < 70;
        let is_pair = |pair: &[RunShape]| pair.iter().all(|run| !run.is_busy && is_flushed(run));
        let at = table.runs.windows(2).position(is_pair)?;
        let pair = Pick::merge(&table.runs[at..at + 2]);
        self.on.load(Ordering::Relaxed).then_some(pair)
    }
}

/// Each merge waits until the other has begun, so the test ends only if both run at the same time.
#[test]
fn two_merges_of_one_table_go_on_beside_each_other() {
    must_end(|| {
        let mem = MemDisk::new();
        let picker = Arc::new(Pairs::default());
        let begun = AtomicUsize::new(0);
        let merges = picker.clone();
        let disk = HookedDisk::new(&mem, move |call, path| {
            let is_merge = call == Call::Create && is_sstable(path);
            if is_merge && merges.on.load(Ordering::Relaxed) {
                begun.fetch_add(1, Ordering::Relaxed);
                until("the other merge to begin", || {
                    begun.load(Ordering::Relaxed) >= 2
                });
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
        // A thread that looks for another merge holds the runs for a moment.
        until("the files of the merged runs to go", || {
            db.compact().unwrap();
            files(&mem, ".sst").len() == files_in_use(&db)
        });
    });
}

/// A merge operator that waits until the door is open before it joins operands, so that a merge
/// lasts until the test opens the door.
#[derive(Debug)]
struct AppendBehindDoor(Arc<Door>);

impl MergeOperator for AppendBehindDoor {
    fn name(&self) -> &str {
        "held"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> std::result::Result<Vec<u8>, String> {
        self.0.pass();
        Ok([older, newer].concat())
    }
}

/// Regression: two long merges took both threads; a third table got 48 runs and its writers
/// stopped.
#[test]
fn short_merges_are_not_behind_long_ones() {
    must_end(|| {
        let door = Arc::new(Door::default());
        let db_options = Options {
            merge_operators: MergeOperators::default().with(AppendBehindDoor(door.clone())),
            compaction: CompactionOptions {
                // Less than the two operands of 20 KiB that a long merge reads. The runs that short merges
                // read have one small row each.
                long_merge_bytes: 30 << 10,
                ..TieredPicker {
                    runs_before_merge: 2,
                    ..TieredPicker::default()
                }
                .into()
            },
            ..options(&MemDisk::new(), Maintenance::Background)
        };
        let (db, keyspace, busy) = open(db_options);
        let held = TableOptions {
            merge_operator: Some("held".into()),
            ..uncompressed()
        };
        let long = ["a", "b"].map(|name| keyspace.table(name, held.clone()).unwrap());
        let runs = |name: &str| {
            let tables = db.stats().tables.into_iter();
            tables
                .filter(|t| t.name == name)
                .map(|t| t.runs.len())
                .sum::<usize>()
        };
        door.close();
        let mut flushes = 0;
        for value in 0..2 {
            for table in &long {
                table.merge(b"k", &[value; 20 << 10]).unwrap();
                db.flush().unwrap();
            }
        }
        until("the long merge to begin", || door.is_waited_at());
        // Beside it and in the table itself. Without short merges, writers would stop at 48 runs. The
        // picker leaves at most 12 runs of a table without snapshots.
        for table in [&busy, &long[0]] {
            for _ in 0..60 {
                table.put(format!("{flushes}").as_bytes(), b"").unwrap();
                db.flush().unwrap();
                flushes += 1;
            }
        }
        until("the short merges", || {
            runs("users") <= 12 && runs("a") <= 12
        });
        assert!(door.is_waited_at(), "the long merge has ended");
        door.open();
        db.compact().unwrap();
        for table in &long {
            assert_eq!(table.get(b"k").unwrap().unwrap().len(), 40 << 10);
        }
        // Into how many runs the short merges lead depends on the threads.
        assert!(runs("a") <= 12, "{}", runs("a"));
        assert_eq!(runs("b"), 1);
    });
}

#[test]
fn stats_show_how_far_a_running_merge_is() {
    must_end(|| {
        let mem = MemDisk::new();
        let (begun, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let merges = Arc::new(AtomicBool::new(false));
        let (at_begin, at_end, is_merge) = (begun.clone(), go_on.clone(), merges.clone());
        let disk = HookedDisk::new(&mem, move |call, path| {
            if call == Call::Create && is_sstable(path) && is_merge.load(Ordering::Relaxed) {
                at_begin.wait();
                at_end.wait();
            }
            Ok(())
        });
        let (db, keyspace, table) = open(on_disk(disk, options(&mem, Maintenance::Manual)));
        for value in 0..4 {
            fill(&table, 100, value);
            db.flush().unwrap();
        }
        keyspace.create_snapshot("s").unwrap();
        fill(&table, 100, 4);
        db.flush().unwrap();
        let before = db.stats().tables[0].clone();
        let strata: Vec<_> = before.runs.iter().map(|run| run.stratum).collect();
        assert_eq!(
            strata,
            [1, 0, 0, 0, 0],
            "the newest run was written after the snapshot"
        );
        assert!(before.runs.iter().all(|run| run.keys == 100));
        assert!(before.merges.is_empty());
        merges.store(true, Ordering::Relaxed);
        let running = thread::scope(|scope| {
            let merging = scope.spawn(|| db.compact().unwrap());
            begun.wait();
            let running = db.stats().tables[0].merges.clone();
            merges.store(false, Ordering::Relaxed);
            go_on.wait();
            merging.join().unwrap();
            running
        });
        let inputs = &before.runs[1..];
        assert_eq!(running.len(), 1, "{running:?}");
        let ids: Vec<_> = inputs.iter().map(|run| run.id).collect();
        assert_eq!((&running[0].inputs, running[0].all_versions), (&ids, 400));
        let bytes: u64 = inputs.iter().map(|run| run.bytes).sum();
        assert_eq!(running[0].all_bytes, bytes);
        assert!(running[0].read_versions <= 400);
        assert!(db.stats().tables[0].merges.is_empty());
    });
}

/// Regression: the ratios were 0 before anything was counted.
#[test]
fn ratios_are_unknown_until_something_is_counted() {
    let mem = MemDisk::new();
    let (db, _keyspace, table) = open(options(&mem, Maintenance::Manual));
    let ratios = || {
        let stats = db.stats();
        [
            stats.write_amplification,
            stats.runs_per_read,
            stats.blocks_per_read,
            stats.cache_hit_ratio,
        ]
    };
    assert_eq!(ratios(), [None; 4]);
    table.put(b"a", b"1").unwrap();
    table.get(b"a").unwrap().unwrap();
    let [written, runs, blocks, hits] = ratios();
    assert!(written.is_some());
    assert_eq!([runs, blocks, hits], [Some(0.0), Some(0.0), None]);
    db.flush().unwrap();
    table.get(b"a").unwrap().unwrap();
    let [_, runs, blocks, hits] = ratios();
    assert_eq!(runs, Some(0.5));
    assert!(blocks > Some(0.0) && hits.is_some());
}

#[test]
fn writes_reads_and_merge_debt_are_counted() {
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
    let amplification = before.write_amplification.unwrap();
    assert!(amplification > 2.0 && amplification < 3.0);
    let file_bytes = before.tables[0].file_bytes;
    assert_eq!(before.compaction_debt_bytes, file_bytes);
    table.get(b"007").unwrap().unwrap();
    assert_eq!(db.stats().runs_per_read, Some(1.0));
    table.put(b"in memory", b"").unwrap();
    table.get(b"in memory").unwrap().unwrap();
    let stats = db.stats();
    assert_eq!(stats.reads_by_runs.len(), Stats::READS_BY_RUNS);
    assert_eq!(
        (stats.reads, &stats.reads_by_runs[..3]),
        (2, &[1, 1, 0][..])
    );
    // Regression: only reads that also searched a run were counted.
    let skipped = stats.filter_skips;
    for key in 0..20 {
        let absent = format!("{key:03} is absent");
        assert!(table.get(absent.as_bytes()).unwrap().is_none());
    }
    assert!(db.stats().filter_skips >= skipped + 40);

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

/// Regression: after a failure merges were still tried, though none could be installed, and two
/// threads woke each other for ever to repeat the failed merge.
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

/// Regression: blocks of removed files stayed in the cache, above all blocks that had been read
/// often, so there was no room for blocks of the new files.
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

/// Regression: merges kept a disk busy that was needed for something else, and only closing the
/// database stopped them. While merges are paused, writers do not wait for merges, however many
/// runs there are.
#[test]
fn no_merge_begins_while_merges_are_paused() {
    const RUNS: u64 = 60;
    for maintenance in [Maintenance::Manual, Maintenance::Background] {
        let mem = MemDisk::new();
        let (db, _keyspace, table) = open(options(&mem, maintenance));
        let paused = [db.pause_merges(), db.pause_merges()];
        for round in 0..RUNS {
            fill(&table, 20, round as u8);
            db.flush().unwrap();
        }
        let [first, second] = paused;
        let panicked = thread::spawn(move || {
            let _first = first;
            panic!("a program's own");
        });
        panicked.join().unwrap_err();
        db.compact().unwrap();
        let stats = db.stats();
        assert_eq!((stats.compactions, stats.merge_pauses), (0, 1));
        assert_eq!(stats.tables[0].runs.len() as u64, RUNS);
        drop(second);
        db.compact().unwrap();
        assert!(db.stats().tables[0].runs.len() < 10);
    }
}
