//! Write stalls: how writers are slowed while background work is behind, and that no writer waits
//! for work that never comes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common::hooked_disk::{Call, Door, HookedDisk, held_disk, is_sstable};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Bounding, CompactionOptions, CompactionPicker, Db, Disk, Durability, Error, Keyspace,
    Maintenance, Options, Pick, Stats, Table, TableOptions, TableShape, TieredPicker,
};

fn open(options: Options) -> (Db, Keyspace, Table) {
    one_table::open(options, TableOptions::default())
}

fn options(disk: Arc<dyn Disk>) -> Options {
    Options {
        durability: Durability::Os,
        maintenance: Maintenance::Background,
        memtable_bytes: MEMTABLE_BYTES,
        frozen_memtables_max: 1,
        idle_after: None,
        low_water_bytes: 0,
        disk,
        ..Options::default()
    }
}

const MEMTABLE_BYTES: usize = 64 << 10;

/// While no flush completes, writers first spend the available tokens (bytes of earlier background
/// work), so they go on for a while. Then each write is delayed for a moment. When the memtables
/// reach their limit, all writers stall until a flush is done, and then go on.
#[test]
fn writers_are_slowed_before_they_are_stopped_and_flushes_let_them_go_on() {
    must_end(|| {
        let (disk, door) = held_disk();
        let (db, _keyspace, table) = open(options(Arc::new(disk.clone())));
        door.close();
        let pressure = || db.stats().tables[0].pressure;
        thread::scope(|scope| {
            for writer in 0..3 {
                let table = table.clone();
                scope.spawn(move || {
                    for i in 0..1000 {
                        let key = format!("{writer}{i}");
                        table.put(key.as_bytes(), &[7; 500]).unwrap();
                    }
                });
            }
            until("writers to be throttled", || db.stats().throttles >= 3);
            let pressed = pressure();
            assert!(pressed > 0.2, "{pressed}");
            until("all writers to stall", || db.stats().stalls == 3);
            let (stats, pressed) = (db.stats(), pressure());
            assert!(stats.throttles > 30, "{} on the way", stats.throttles);
            assert_eq!(pressed, 1.0);
            let held = stats.tables[0].memtable_bytes as usize;
            assert!(held < 5 * MEMTABLE_BYTES / 2, "{held}");
            door.open();
        });
        db.flush().unwrap();
        // The flushes leave about as many runs as are allowed before writers are slowed.
        db.compact().unwrap();
        let stats = db.stats();
        assert_eq!((stats.writes, pressure()), (3000, 0.0));
        assert!(stats.throttle_us > 0, "they waited for tokens");
        let waited_us = stats.throttle_us + stats.stall_us;
        assert!((stats.stall_us_max..=waited_us).contains(&stats.write_wait_us_max));
        let keys = table.range::<&[u8], _>(..).count();
        assert_eq!(keys, 3000);
    });
}

/// With `frozen_memtables_max: 0`, a writer that finds the memtable full stalls until the flush is
/// done. It is never throttled before.
#[test]
fn a_stall_is_counted_and_ends_with_the_flush() {
    must_end(|| {
        let (disk, door) = held_disk();
        let (db, _keyspace, table) = open(Options {
            frozen_memtables_max: 0,
            ..options(Arc::new(disk.clone()))
        });
        door.close();
        table.put(b"a", &[1; MEMTABLE_BYTES]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| table.put(b"b", b"2").unwrap());
            until("the writer to stall", || db.stats().stalls == 1);
            assert_eq!(db.stats().tables[0].pressure, 1.0);
            assert_eq!(table.get(b"b").unwrap(), None);
            door.open();
        });
        assert_eq!(table.get(b"b").unwrap().unwrap(), "2");
        let stats = db.stats();
        assert_eq!((stats.stalls, stats.throttles), (1, 0));
        assert!(stats.stall_us > 0 && stats.stall_us == stats.stall_us_max);
        assert_eq!(stats.write_wait_us_max, stats.stall_us);
    });
}

/// If the table is dropped, a writer that waits for a flush of the table gets an error and stops
/// waiting.
#[test]
fn a_table_dropped_meanwhile_is_not_waited_for() {
    must_end(|| {
        let (disk, door) = held_disk();
        let (db, keyspace, table) = open(Options {
            frozen_memtables_max: 0,
            ..options(Arc::new(disk.clone()))
        });
        door.close();
        table.put(b"a", &[1; MEMTABLE_BYTES]).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| table.put(b"b", b"2"));
            until("the writer to stall", || db.stats().stalls == 1);
            keyspace.drop_table("users").unwrap();
            writer.join().unwrap().unwrap_err();
            door.open();
        });
    });
}

/// The default picker, which picks nothing until it is switched on.
#[derive(Debug, Default)]
struct Switched {
    on: AtomicBool,
    picker: TieredPicker,
}

impl CompactionPicker for Switched {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let on = self.on.load(Ordering::Relaxed);
        on.then(|| self.picker.pick(table)).flatten()
    }
}

/// A large number of runs makes writers wait only as long as there is a merge that reduces it.
#[test]
fn writers_wait_for_merges_until_there_are_fewer_runs() {
    must_end(|| {
        let picker = Arc::new(Switched::default());
        let options = options(Arc::new(MemDisk::new()));
        let (db, _keyspace, table) = open(Options {
            compaction: CompactionOptions {
                picker: picker.clone(),
                ..options.compaction
            },
            ..options
        });
        for i in 0..60 {
            table.put(format!("{i}").as_bytes(), b"1").unwrap();
            db.flush().unwrap();
        }
        let runs = || db.stats().tables[0].runs.len();
        assert_eq!((runs(), db.stats().tables[0].pressure), (60, 0.0));
        picker.on.store(true, Ordering::Relaxed);
        // This flush starts the merges.
        table.put(b"61", b"1").unwrap();
        db.flush().unwrap();
        table.put(b"last", b"1").unwrap();
        assert!(runs() < 48, "{} runs and a write was admitted", runs());
        db.compact().unwrap();
        assert_eq!(db.stats().tables[0].pressure, 0.0);
    });
}

/// Snapshots keep the runs from being merged: there are more runs than the limit for writers, and
/// no merge to wait for. At the same time writers fill memtables faster than these are flushed.
#[test]
fn strict_bounding_and_many_snapshots_stall_no_writer_for_ever() {
    must_end(|| {
        let mem = MemDisk::new();
        let strict = TieredPicker {
            bounding: Bounding::Strict,
            ..TieredPicker::default()
        };
        let (db, keyspace, table) = open(Options {
            compaction: strict.into(),
            memtable_bytes: 2000,
            ..options(Arc::new(mem.clone()))
        });
        thread::scope(|scope| {
            for writer in 0..3 {
                let table = table.clone();
                scope.spawn(move || {
                    for i in 0..500 {
                        let key = format!("{writer}{}", i % 50);
                        table.put(key.as_bytes(), &[7; 100]).unwrap();
                    }
                });
            }
            for i in 0..100 {
                keyspace.create_snapshot(&format!("s{i}")).unwrap();
                table.put(b"k", format!("{i}").as_bytes()).unwrap();
                db.flush().unwrap();
            }
        });
        db.flush().unwrap();
        db.compact().unwrap();
        let stats = db.stats().tables[0].clone();
        assert!(stats.runs.len() > 48, "{} runs", stats.runs.len());
        assert_eq!(stats.pressure, 0.0);
        for (name, value) in [("s0", None), ("s34", Some("33")), ("s99", Some("98"))] {
            let snapshot = keyspace.snapshot(name).unwrap();
            let found = snapshot.table("users").unwrap().get(b"k").unwrap();
            assert_eq!(one_table::text(found).as_deref(), value, "{name}");
        }
    });
}

/// Writes two runs, which `UnlessSnapshot` with `runs` 2 merges.
fn write_two_runs(db: &Db, table: &Table) {
    for value in 0..2 {
        for i in 0..100 {
            table.put(format!("{i}").as_bytes(), &[value; 100]).unwrap();
        }
        db.flush().unwrap();
    }
}

/// A picker that merges all runs of a table if there are exactly `runs` of them and the table has
/// no snapshot. With `runs` 0 it picks nothing.
#[derive(Debug, Default)]
struct UnlessSnapshot {
    runs: AtomicUsize,
}

impl CompactionPicker for UnlessSnapshot {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let wanted = self.runs.load(Ordering::SeqCst);
        let is_worth_it = table.runs.len() == wanted && table.bookmarks.is_empty();
        (is_worth_it && wanted > 0).then(|| Pick::merge(table.runs))
    }
}

/// Writes 60 runs, more than the 48 at which writers wait if there is a merge to wait for. The
/// picker picks none of these runs yet. The thread that merges is kept at the end of a merge of
/// another table, until the caller opens the door. The tables are those with the 60 runs and the other
/// one.
fn held_at_the_end_of_a_merge() -> (Db, Keyspace, [Table; 2], Arc<UnlessSnapshot>, Arc<Door>) {
    let door = Arc::new(Door::default());
    let held = door.clone();
    let disk = HookedDisk::new(&MemDisk::new(), move |call, _| {
        if call == Call::SyncDir && thread::current().name() == Some("ebb-compact") {
            held.pass();
        }
        Ok(())
    });
    let picker = Arc::new(UnlessSnapshot::default());
    let options = options(Arc::new(disk));
    let (db, keyspace, table) = open(Options {
        compaction: CompactionOptions {
            picker: picker.clone(),
            threads: 1,
            ..options.compaction
        },
        ..options
    });
    for i in 0..60 {
        table.put(format!("{i}").as_bytes(), b"1").unwrap();
        db.flush().unwrap();
    }
    door.close();
    picker.runs.store(2, Ordering::SeqCst);
    let other = keyspace.table("other", TableOptions::default()).unwrap();
    write_two_runs(&db, &other);
    until("the other merge to come to its end", || door.is_waited_at());
    (db, keyspace, [table, other], picker, door)
}

/// Regression: a writer began to wait because there was a merge to do. Then a new snapshot kept the
/// runs apart. The merging thread found nothing to merge and did not wake the writer, which waited
/// for ever.
#[test]
fn a_merge_that_a_new_snapshot_makes_worthless_is_not_waited_for() {
    must_end(|| {
        let (db, keyspace, [table, _other], picker, door) = held_at_the_end_of_a_merge();
        // It merged nothing after all, so that its end is no reason to look again.
        keyspace.drop_table("other").unwrap();
        picker.runs.store(60, Ordering::SeqCst);
        // A deletion of a snapshot makes the merging threads look for work again.
        keyspace.create_snapshot("gone").unwrap();
        keyspace.delete_snapshot("gone").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| table.put(b"last", b"1").unwrap());
            until("the writer to stall", || db.stats().stalls == 1);
            create_table_snapshot(&keyspace, "s", "users").unwrap();
            door.open();
        });
        assert_eq!(table.get(b"last").unwrap().unwrap(), "1");
        let stats = db.stats();
        let users = &stats.tables[0];
        assert_eq!((users.runs.len(), users.pressure), (60, 0.0));
        assert_eq!(stats.compactions, 0);
    });
}

/// While merges are paused a writer must not wait for one.
#[test]
fn a_pause_of_merges_holds_no_writer_up() {
    must_end(|| {
        let (db, keyspace, [table, _other], picker, door) = held_at_the_end_of_a_merge();
        picker.runs.store(60, Ordering::SeqCst);
        keyspace.create_snapshot("gone").unwrap();
        keyspace.delete_snapshot("gone").unwrap();
        let paused = thread::scope(|scope| {
            let writer = scope.spawn(|| table.put(b"last", b"1").unwrap());
            until("the writer to stall", || db.stats().stalls == 1);
            assert!(!writer.is_finished());
            let paused = db.pause_merges();
            writer.join().unwrap();
            paused
        });
        let stats = db.stats();
        assert_eq!((stats.merge_pauses, stats.compactions_running), (1, 1));
        let users = |stats: &Stats| stats.tables.iter().find(|t| t.name == "users").cloned();
        assert_eq!(users(&stats).unwrap().pressure, 0.0);
        door.open();
        until("the running merge to end", || {
            db.stats().compactions_running == 0
        });
        assert_eq!(db.stats().compactions, 1, "the one under way");
        drop(paused);
        until("the merge after the pause", || {
            users(&db.stats()).unwrap().runs.len() == 1
        });
    });
}

const CALLER: &str = "caller";

/// Makes a flush by a caller fail while a writer waits for it. Returns the error of the flush and
/// the outcome of the write. The caller of the flush waits at `door` before it creates its SSTable.
fn fail_while_a_writer_waits(
    (db, table): (&Db, &Table),
    door: &Door,
    fail: impl FnOnce(),
) -> (Error, Result<(), Error>) {
    door.close();
    thread::scope(|scope| {
        let flush = thread::Builder::new().name(CALLER.into());
        // The flushing thread may flush first, because of an earlier request.
        let flush = flush.spawn_scoped(scope, || {
            loop {
                table.put(b"a", b"1").unwrap();
                if let Err(e) = db.flush() {
                    return e;
                }
            }
        });
        until("the flush to begin", || door.is_waited_at());
        let stalls = db.stats().stalls;
        let writer = scope.spawn(|| table.put(b"b", b"2"));
        until("the writer to stall", || db.stats().stalls > stalls);
        fail();
        door.open();
        (flush.unwrap().join().unwrap(), writer.join().unwrap())
    })
}

/// Regression: if a flush by a caller failed, the background threads were not signalled to try
/// again, so a writer that waited for that flush waited for ever. On a full disk another try does
/// not help: there the write must fail.
#[test]
fn a_flush_that_fails_for_its_caller_leaves_no_writer_waiting() {
    must_end(|| {
        // The thread that merges is kept at the end of a merge: it would signal for flushes, too.
        let (door, merge) = (Arc::new(Door::default()), Arc::new(Door::default()));
        let fails = Arc::new(AtomicBool::new(false));
        let held = (door.clone(), merge.clone(), fails.clone());
        let mem = MemDisk::new();
        let disk = HookedDisk::new(&mem, move |call, path| {
            match (call, thread::current().name()) {
                (Call::Create, Some(CALLER)) if is_sstable(path) => {
                    held.0.pass();
                    if held.2.swap(false, Ordering::SeqCst) {
                        return Err(io::ErrorKind::Other.into());
                    }
                }
                (Call::SyncDir, Some("ebb-compact")) => held.1.pass(),
                _ => {}
            }
            Ok(())
        });
        let picker = UnlessSnapshot {
            runs: AtomicUsize::new(2),
        };
        let options = options(Arc::new(disk));
        let (db, keyspace, table) = open(Options {
            frozen_memtables_max: 0,
            compaction: CompactionOptions {
                picker: Arc::new(picker),
                threads: 1,
                ..options.compaction
            },
            ..options
        });
        merge.close();
        let other = keyspace.table("other", TableOptions::default()).unwrap();
        write_two_runs(&db, &other);
        until("the merge to come to its door", || merge.is_waited_at());
        // In the first rounds the flushing thread may try again because of an earlier
        // request.
        for _ in 0..5 {
            let fail = || fails.store(true, Ordering::SeqCst);
            let (failure, outcome) = fail_while_a_writer_waits((&db, &table), &door, fail);
            assert!(matches!(failure, Error::Io { .. }), "{failure}");
            outcome.unwrap();
            assert_eq!(table.get(b"b").unwrap().unwrap(), "2");
            table.delete(b"b").unwrap();
        }
        let fail = || mem.set_capacity_bytes(Some(mem.used_bytes()));
        let (failure, outcome) = fail_while_a_writer_waits((&db, &table), &door, fail);
        assert!(matches!(failure, Error::DiskFull { .. }), "{failure}");
        let refused = outcome.unwrap_err();
        assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
        assert_eq!(table.get(b"b").unwrap(), None);
        mem.set_capacity_bytes(None);
        merge.open();
        db.flush().unwrap();
        table.put(b"b", b"2").unwrap();
    });
}
