//! Writers and the work that is behind them: who is slowed, by how much, and that
//! nobody waits for what never comes.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::hooked_disk::{Call, Door, HookedDisk, is_sstable};
use common::*;
use ebb_storage::vfs::{MemVfs, Vfs};
use ebb_storage::{
    Bounding, CompactionOptions, CompactionPicker, Db, Durability, Keyspace, Maintenance, Options,
    Pick, Table, TableOptions, TableShape, TieredPicker,
};

fn open(options: Options) -> (Db, Keyspace, Table) {
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", TableOptions::default()).unwrap();
    (db, keyspace, table)
}

fn options(vfs: Arc<dyn Vfs>) -> Options {
    Options {
        durability: Durability::Os,
        maintenance: Maintenance::Background,
        memtable_bytes: MEMTABLE_BYTES,
        frozen_memtables_max: 1,
        vfs,
        ..Options::default()
    }
}

const MEMTABLE_BYTES: usize = 64 << 10;

/// Runs a test that would wait for ever if it failed.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    let outcome = outcome.recv_timeout(Duration::from_secs(120));
    outcome.expect("somebody waits for ever, or the thread panicked");
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// A disk on which SSTables are created only while the door is open.
fn held_disk() -> (HookedDisk, Arc<Door>) {
    let door = Arc::new(Door::default());
    let held = door.clone();
    let disk = HookedDisk::new(&MemVfs::new(), move |call, path| {
        if call == Call::Create && is_sstable(path) {
            held.pass();
        }
    });
    (disk, door)
}

/// While no flush gets on, writers spend the credit that there is, which lasts
/// for a part of the way to the limit, and then wait; the flush lets them go on.
#[test]
fn writers_are_slowed_before_they_are_stopped_and_flushes_let_them_go_on() {
    ends(|| {
        let (disk, door) = held_disk();
        let (db, _keyspace, table) = open(options(Arc::new(disk.clone())));
        door.close();
        let pressure = || db.stats().tables[0].pressure;
        thread::scope(|scope| {
            for writer in 0..3 {
                let table = table.clone();
                scope.spawn(move || {
                    for i in 0..1000 {
                        table
                            .put(format!("{writer}{i}").as_bytes(), &[7; 500])
                            .unwrap();
                    }
                });
            }
            until(|| db.stats().delays >= 3);
            // Each of the three waits: nothing more is admitted.
            let (stats, pressed) = (db.stats(), pressure());
            assert_eq!((stats.delays, stats.stalls), (3, 0));
            assert_eq!(stats.tables[0].frozen_memtables, 1);
            assert!(pressed > 0.2 && pressed < 0.8, "{pressed}");
            door.open();
        });
        db.flush().unwrap();
        let stats = db.stats();
        assert_eq!((stats.writes, pressure()), (3000, 0.0));
        assert!(stats.delay_us > 0, "they waited for the flush");
        let mean_us = stats.delay_us / stats.delays;
        assert!((mean_us..=stats.delay_us).contains(&stats.gate_us_max));
        let keys = table.range::<&[u8], _>(..).count();
        assert_eq!(keys, 3000);
    });
}

/// With no memtable that may wait there is nothing between free and closed.
#[test]
fn a_closed_gate_counts_as_a_stall_and_opens_with_the_flush() {
    ends(|| {
        let (disk, door) = held_disk();
        let (db, _keyspace, table) = open(Options {
            frozen_memtables_max: 0,
            ..options(Arc::new(disk.clone()))
        });
        door.close();
        table.put(b"a", &[1; MEMTABLE_BYTES]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| table.put(b"b", b"2").unwrap());
            until(|| db.stats().stalls == 1);
            assert_eq!(db.stats().tables[0].pressure, 1.0);
            assert_eq!(table.get(b"b").unwrap(), None);
            door.open();
        });
        assert_eq!(table.get(b"b").unwrap().unwrap(), "2");
        let stats = db.stats();
        assert_eq!((stats.stalls, stats.delays), (1, 0));
        assert!(stats.stall_us > 0 && stats.stall_us == stats.stall_us_max);
        assert_eq!(stats.gate_us_max, stats.stall_us);
    });
}

/// Dropping the table ends the wait for its flush, with an error.
#[test]
fn a_table_dropped_meanwhile_is_not_waited_for() {
    ends(|| {
        let (disk, door) = held_disk();
        let (db, keyspace, table) = open(Options {
            frozen_memtables_max: 0,
            ..options(Arc::new(disk.clone()))
        });
        door.close();
        table.put(b"a", &[1; MEMTABLE_BYTES]).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| table.put(b"b", b"2"));
            until(|| db.stats().stalls == 1);
            keyspace.drop_table("users").unwrap();
            writer.join().unwrap().unwrap_err();
            door.open();
        });
    });
}

/// The usual picker, as soon as it is on.
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

/// Runs count as long as there is a merge to wait for, and only then.
#[test]
fn writers_wait_for_merges_until_there_are_fewer_runs() {
    ends(|| {
        let picker = Arc::new(Switched::default());
        let options = options(Arc::new(MemVfs::new()));
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
        // This flush is what asks for merges.
        table.put(b"61", b"1").unwrap();
        db.flush().unwrap();
        table.put(b"last", b"1").unwrap();
        assert!(runs() < 48, "{} runs and a write was admitted", runs());
        db.compact().unwrap();
        assert_eq!(db.stats().tables[0].pressure, 0.0);
    });
}

/// Snapshots hold the runs apart: there are more of them than any limit, and
/// nothing to wait for. Beside it memtables do fill up faster than is allowed.
#[test]
fn strict_bounding_and_many_snapshots_hold_nobody_up_for_ever() {
    ends(|| {
        let mem = MemVfs::new();
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
                        table
                            .put(format!("{writer}{}", i % 50).as_bytes(), &[7; 100])
                            .unwrap();
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
            assert_eq!(
                found.as_deref(),
                value.map(|v: &str| v.as_bytes()),
                "{name}"
            );
        }
    });
}

/// Two runs that the usual picker merges.
fn write_two_runs(db: &Db, table: &Table) {
    for value in 0..2 {
        for i in 0..100 {
            table.put(format!("{i}").as_bytes(), &[value; 100]).unwrap();
        }
        db.flush().unwrap();
    }
}

/// At a byte per second the merge would take hours.
#[test]
fn closing_the_database_ends_a_merge_that_is_paced() {
    ends(|| {
        let mem = MemVfs::new();
        let paced = |bytes_per_sec| Options {
            compaction: CompactionOptions {
                bytes_per_sec,
                ..CompactionOptions::default()
            },
            ..options(Arc::new(mem.clone()))
        };
        let (db, keyspace, table) = open(paced(Some(1)));
        write_two_runs(&db, &table);
        until(|| db.stats().compactions_running == 1);
        assert_eq!(table.get(b"7").unwrap().unwrap(), [1; 100][..]);
        drop((db, keyspace, table));
        let (db, _keyspace, table) = open(paced(None));
        db.compact().unwrap();
        let stats = db.stats();
        assert_eq!(stats.tables[0].runs.len(), 1);
        assert_eq!(stats.compaction_paced_us, 0);
        assert_eq!(files(&mem, ".sst").len(), files_in_use(&db));
        assert_eq!(table.get(b"7").unwrap().unwrap(), [1; 100][..]);
    });
}

/// A merge stands still at its rate until a writer is slowed.
#[test]
fn a_merge_is_paced_until_writers_are_pressed() {
    ends(|| {
        let (disk, door) = held_disk();
        let options = options(Arc::new(disk.clone()));
        let (db, _keyspace, table) = open(Options {
            frozen_memtables_max: 0,
            compaction: CompactionOptions {
                bytes_per_sec: Some(1),
                ..options.compaction
            },
            ..options
        });
        write_two_runs(&db, &table);
        until(|| files(&disk.mem, ".sst").len() == 3);
        assert_eq!(db.stats().compactions, 0);
        door.close();
        table.put(b"a", &[1; MEMTABLE_BYTES]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| table.put(b"b", b"2").unwrap());
            // The flush is held: there is pressure, and the merge gets on.
            until(|| db.stats().stalls == 1 && db.stats().compactions == 1);
            door.open();
        });
    });
}
