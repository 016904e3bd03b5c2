//! Flushes of many tables: together, and beside each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::one_table::{get, open};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Durability, Maintenance, Options, Search};

/// Regression: the flush of each tiny table synced the directory, the log and the manifest. That
/// took so long that the log grew to four times its bound with 200 tables.
#[test]
fn many_tiny_tables_share_their_syncs() {
    let mem = MemDisk::new();
    let dir_syncs = Arc::new(AtomicUsize::new(0));
    let count = dir_syncs.clone();
    let disk = HookedDisk::new(&mem, move |call, _| {
        count.fetch_add(usize::from(call == Call::SyncDir), Ordering::Relaxed);
        Ok(())
    });
    let options = on_disk(disk, manual(&mem));
    let db = Db::open(DIR, options.clone()).unwrap();
    let app = db.keyspace("app").unwrap();
    let tables: Vec<_> = (0..200)
        .map(|i| app.table(&format!("t{i}"), Default::default()).unwrap())
        .collect();
    for table in &tables {
        table.put(b"k", table.name().as_bytes()).unwrap();
    }
    let before = dir_syncs.load(Ordering::Relaxed);
    db.flush().unwrap();
    let syncs = dir_syncs.load(Ordering::Relaxed) - before;
    assert!(syncs < 20, "{syncs} syncs of the directory");
    let stats = db.stats();
    assert!(stats.tables.iter().all(|table| table.runs.len() == 1));
    lose_power(&mem, (tables, app, db), 1);
    let db = Db::open(DIR, options).unwrap();
    let app = db.existing_keyspace("app").unwrap();
    for i in 0..200 {
        let name = format!("t{i}");
        let table = app.existing_table(&name).unwrap();
        assert_eq!(get(&table, "k").unwrap(), name);
    }
    db.verify().unwrap();
}

/// Several threads write memtables to files. Memtables of one table are written one after the
/// other. A thread installs the runs of all threads at once when there are enough of them.
///
/// No commit waits for the disk (`Durability::Os`), so only the flush makes sure that the power
/// loss takes nothing. The numbers are arbitrary, and others of about this size would do: there are
/// more tables than threads that flush, the writes of a table fill about eight memtables, and their
/// keys repeat, so that a run in the wrong place would show an old value.
#[test]
fn flushes_beside_each_other_lose_nothing() {
    const TABLES: usize = 12;
    const ROUNDS: u32 = 150;
    for seed in 0..4 {
        must_end(move || {
            let mem = MemDisk::new();
            let options = Options {
                maintenance: Maintenance::Background,
                durability: Durability::Os,
                flush_threads: 3,
                memtable_bytes: 2 << 10,
                ..manual(&mem)
            };
            let db = Db::open(DIR, options.clone()).unwrap();
            let app = db.keyspace("app").unwrap();
            let tables: Vec<_> = (0..TABLES)
                .map(|i| app.table(&format!("t{i}"), Default::default()).unwrap())
                .collect();
            let key = |i: u32| (i % 40).to_be_bytes();
            thread::scope(|scope| {
                for of_thread in tables.chunks(TABLES / 3) {
                    scope.spawn(move || {
                        for i in 0..ROUNDS {
                            for (n, table) in of_thread.iter().enumerate() {
                                match i % 29 {
                                    28 => table.delete(&key(i - 1)).unwrap(),
                                    _ => table.put(&key(i), &[n as u8; 100]).unwrap(),
                                }
                            }
                        }
                    });
                }
            });
            let before: Vec<_> = tables
                .iter()
                .map(|t| content(t.range::<&[u8], _>(..)).unwrap())
                .collect();
            db.flush().unwrap();
            assert!(db.stats().tables.iter().all(|t| t.frozen_memtables == 0));
            let names: Vec<_> = tables
                .iter()
                .map(|table| table.name().to_string())
                .collect();
            lose_power(&mem, (tables, app, db), seed);
            let db = Db::open(DIR, options).unwrap();
            let app = db.existing_keyspace("app").unwrap();
            for (name, before) in names.iter().zip(before) {
                let table = app.existing_table(name).unwrap();
                assert_eq!(content(table.range::<&[u8], _>(..)).unwrap(), before);
            }
            db.verify().unwrap();
        });
    }
}

/// Regression: a consumer that deleted rows from the front of a queue walked over all rows that it
/// had deleted before, as long as these were in the memtable: 10 ms a step. After that was mended,
/// a consumer that deleted rows from the end still did so.
///
/// A scan requests the flush at 4,096 dead keys (`IN_STEP_MAX`): 9,000 and 4,000 lie above and
/// below this number. A memtable of less than a sixteenth of its full size is not flushed for a
/// scan (`SCANNED_FRACTION`). The rows have more bytes than that, and too few for a full memtable.
#[test]
fn a_scan_over_dead_keys_has_their_memtable_flushed() {
    let is_flushed_after = |deleted: u32, is_reversed: bool, maintenance| {
        let mem = MemDisk::new();
        let options = Options {
            maintenance,
            durability: Durability::Os,
            memtable_bytes: 4 << 20,
            ..manual(&mem)
        };
        let (db, _, queue) = open(options, Default::default());
        for i in 0..10_000u32 {
            queue.put(&i.to_be_bytes(), &[7; 100]).unwrap();
        }
        let (dead, expected) = if is_reversed {
            (10_000 - deleted..10_000, 9_999 - deleted)
        } else {
            (0..deleted, deleted)
        };
        for i in dead {
            queue.delete(&i.to_be_bytes()).unwrap();
        }
        // The dead keys of all pieces of a search count together.
        let mut scan = queue.range::<&[u8], _>(..);
        let first = loop {
            let search = if is_reversed {
                scan.next_back_within(256)
            } else {
                scan.next_within(256)
            };
            if let Search::Found(first) = search.unwrap().unwrap() {
                break first;
            }
        };
        drop(scan);
        assert_eq!(first.0, expected.to_be_bytes()[..]);
        // A scan freezes it there and then.
        let frozen = db.stats().tables[0].frozen_memtables;
        let has_run = || !db.stats().tables[0].runs.is_empty();
        let is_flushed = frozen > 0 || has_run();
        if is_flushed {
            until("the flush", has_run);
        }
        let mut scan = queue.range::<&[u8], _>(..);
        let again = if is_reversed {
            scan.next_back()
        } else {
            scan.next()
        };
        assert_eq!(again.unwrap().unwrap().0, first.0);
        is_flushed
    };
    for is_reversed in [false, true] {
        let background = Maintenance::Background;
        assert!(is_flushed_after(9000, is_reversed, background));
        assert!(!is_flushed_after(4000, is_reversed, background));
        assert!(!is_flushed_after(9000, is_reversed, Maintenance::Manual));
    }
}
