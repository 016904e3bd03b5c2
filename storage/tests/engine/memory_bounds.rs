//! Memtables, caches and the log stay within their bounds, however many tables there are, and
//! no writer waits for them for ever.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::hooked_disk::{Call, Door, HookedDisk, held_disk, is_sstable};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Durability, Error, Keyspace, Maintenance, Options, SsTableOptions, Table};
use rand::RngExt;

const VALUE: [u8; 1000] = [7; 1000];
/// The most by which memtables may exceed their budget. Their memory is added up after each 64 KiB
/// of writes. The addition may come late, but writers wait for it once 128 KiB have been written
/// since the last one. The third 64 KiB are for bytes that are in memory and not in the log, and
/// for writers that were admitted before.
const SLACK_BYTES: u64 = 3 * (64 << 10);
const MIB: u64 = 1 << 20;

fn open(options: Options) -> (Db, Keyspace) {
    let db = Db::open(DIR, options).unwrap();
    let app = db.keyspace("app").unwrap();
    (db, app)
}

fn make_tables(app: &Keyspace, count: usize) -> Vec<Table> {
    let make = |i| app.table(&format!("t{i}"), Default::default()).unwrap();
    (0..count).map(make).collect()
}

fn on_disk(disk: HookedDisk) -> Options {
    Options {
        disk: Arc::new(disk),
        maintenance: Maintenance::Background,
        durability: Durability::Os,
        idle_after: None,
        ..Options::default()
    }
}

const WRITERS: u64 = 3;
const WRITES: u32 = 2000;
/// The number of writes after which a writer checks the statistics again.
const WRITES_PER_LOOK: u32 = 50;

/// Sizes in bytes, measured while 6 MB are written to a database: the maxima over that time, unless
/// a field states otherwise.
#[derive(Debug, Default)]
struct Sizes {
    memtables_max: u64,
    wal_max: u64,
    /// The size, after all writes, of the memtable of a table that got one write, the first of all.
    quiet_memtable: u64,
}

/// Lets several threads write to `tables` tables as fast as they can, on a disk on which a flush takes a
/// while. All the time a reader holds the first memtable of one of the tables. Returns the measured sizes.
fn write_to_many(tables: usize, options: impl FnOnce(Options) -> Options) -> Sizes {
    let disk = HookedDisk::new(&MemDisk::new(), |call, path| {
        if call == Call::Create && is_sstable(path) {
            thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    });
    let (db, app) = open(options(on_disk(disk)));
    let tables = make_tables(&app, tables);
    let quiet = app.table("quiet", Default::default()).unwrap();
    quiet.put(b"key", &VALUE).unwrap();
    tables[0].put(b"read", &VALUE).unwrap();
    let mut reader = tables[0].range::<&[u8], _>(..);
    assert!(reader.next().is_some());
    let sizes = Mutex::new(Sizes::default());
    let look = || {
        let stats = db.stats();
        let mut sizes = sizes.lock().unwrap();
        sizes.memtables_max = sizes.memtables_max.max(stats.memtable_bytes);
        sizes.wal_max = sizes.wal_max.max(stats.wal_bytes);
    };
    let write = |seed| {
        let mut rng = rng(seed);
        for i in 0..WRITES {
            let table = &tables[rng.random_range(0..tables.len())];
            table.put(format!("{seed} {i}").as_bytes(), &VALUE).unwrap();
            if i % WRITES_PER_LOOK == 0 {
                look();
            }
        }
    };
    thread::scope(|scope| {
        let write = &write;
        for seed in 0..WRITERS {
            scope.spawn(move || write(seed));
        }
    });
    assert_eq!(reader.count(), 0, "it sees what there was");
    let found: usize = tables
        .iter()
        .map(|table| table.range::<&[u8], _>(..).count())
        .sum();
    assert_eq!(found as u64, WRITERS * u64::from(WRITES) + 1);
    let mut stats = db.stats().tables.into_iter();
    let quiet = stats.find(|table| table.name == "quiet").unwrap();
    Sizes {
        quiet_memtable: quiet.memtable_bytes,
        ..sizes.into_inner().unwrap()
    }
}

/// Regression: each of 200 tables had a memtable that was far from full, and all together took
/// three times their budget. One table alone may not exceed the budget either.
#[test]
fn all_memtables_together_keep_to_their_budget() {
    for tables in [200, 1] {
        must_end(move || {
            let budget_bytes = 2 * MIB;
            let sizes = write_to_many(tables, |options| Options {
                memtables_bytes: Some(budget_bytes as usize),
                ..options
            });
            let most = sizes.memtables_max;
            let bytes_max = budget_bytes + SLACK_BYTES;
            assert!(most <= bytes_max, "{most} bytes of {tables}");
            assert!(most >= budget_bytes / 4, "only {most} bytes are used");
            if tables > 1 {
                assert!(sizes.quiet_memtable > 0, "a small memtable was flushed");
            }
        });
    }
}

/// Regression: with 200 tables the log took 277 MB where 64 were allowed: memtables were flushed
/// for the log only once it was too large, and writers did not wait for the flushes.
#[test]
fn the_log_keeps_within_its_bound() {
    must_end(|| {
        let wal_bytes_max = MIB;
        let sizes = write_to_many(200, |options| Options {
            wal_bytes_max,
            ..options
        });
        let most = sizes.wal_max;
        // Each writer may have been admitted before the log reached its bound.
        let bytes_max = wal_bytes_max + WRITERS * 2 * VALUE.len() as u64;
        assert!(most <= bytes_max, "{most} bytes");
        assert!(most >= wal_bytes_max / 2, "only {most} bytes are used");
        assert_eq!(sizes.quiet_memtable, 0, "it held the oldest segment");
    });
}

/// Writes until a write fails, to one table after the other. Returns the error.
fn write_until_refused(tables: &[Table]) -> Error {
    let mut tables = tables.iter().cycle();
    let mut i = 0_u32;
    loop {
        i += 1;
        if let Err(e) = tables.next().unwrap().put(&i.to_be_bytes(), &VALUE) {
            return e;
        }
        assert!(i < 10_000, "no write is refused");
    }
}

/// If flushes find no space, a wait might never end: at the bound a write to any table returns an
/// error. Once there is space, writes succeed again.
#[test]
fn a_budget_that_cannot_be_flushed_for_is_an_error() {
    for maintenance in [Maintenance::Background, Maintenance::Manual] {
        must_end(move || {
            let is_full = Arc::new(AtomicBool::new(true));
            let full = is_full.clone();
            let disk = HookedDisk::new(&MemDisk::new(), move |call, path| {
                if call == Call::Create && is_sstable(path) && full.load(Ordering::SeqCst) {
                    Err(io::ErrorKind::StorageFull.into())
                } else {
                    Ok(())
                }
            });
            let (db, app) = open(Options {
                memtables_bytes: Some(MIB as usize),
                maintenance,
                ..on_disk(disk)
            });
            let tables = make_tables(&app, 50);
            let refused = write_until_refused(&tables);
            assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
            let taken = db.stats().memtable_bytes;
            let bytes_max = MIB + SLACK_BYTES;
            assert!((MIB / 2..=bytes_max).contains(&taken), "{taken} bytes");
            is_full.store(false, Ordering::SeqCst);
            db.flush().unwrap();
            tables[7].put(b"k", b"v").unwrap();
            assert!(db.stats().memtable_bytes < MIB / 2);
        });
    }
}

/// Writers to one table wait for the memory of other tables, but not for that of a dropped table: such memory
/// is free at once, even while a flush of the table is under way.
#[test]
fn writers_do_not_wait_for_the_memory_of_a_dropped_table() {
    must_end(|| {
        let (disk, door) = held_disk();
        let (db, app) = open(Options {
            memtables_bytes: Some(MIB as usize),
            ..on_disk(disk)
        });
        let [large, small] =
            ["large", "small"].map(|name| app.table(name, Default::default()).unwrap());
        door.close();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let put = |i: u32| large.put(&i.to_be_bytes(), &VALUE);
                (0..).find_map(|i| put(i).err()).unwrap()
            });
            until("the writer to stall behind the flush", || {
                door.is_waited_at() && db.stats().stalls == 1
            });
            let other = scope.spawn(|| small.put(b"k", b"v"));
            until("the other writer to stall", || db.stats().stalls == 2);
            let pressures = || db.stats().tables.into_iter().map(|table| table.pressure);
            assert!(pressures().all(|pressure| pressure == 1.0));
            app.drop_table("large").unwrap();
            other.join().unwrap().unwrap();
            let refused = writer.join().unwrap();
            assert!(matches!(refused, Error::NotFound { .. }), "{refused}");
            door.open();
        });
        assert_eq!(small.get(b"k").unwrap().unwrap(), "v");
    });
}

/// Creates a database whose log has a bound of 1 MiB, and 20 tables.
fn with_bounded_log() -> (Db, Vec<Table>) {
    let disk = HookedDisk::new(&MemDisk::new(), |_, _| Ok(()));
    let (db, app) = open(Options {
        wal_bytes_max: MIB,
        ..on_disk(disk)
    });
    (db, make_tables(&app, 20))
}

/// Writes one value in each of `rounds`, to one table after the other.
fn write_in_turn(tables: &[Table], rounds: Range<u32>) {
    for i in rounds {
        let table = &tables[i as usize % tables.len()];
        table.put(&i.to_be_bytes(), &VALUE).unwrap();
    }
}

/// A backup keeps segments of the log. Writers do not wait for it: the log grows beyond its
/// bound, and is short again soon after the backup.
#[test]
fn writers_do_not_wait_for_a_log_that_a_backup_keeps() {
    must_end(|| {
        let (db, tables) = with_bounded_log();
        let write = |rounds| write_in_turn(&tables, rounds);
        write(0..500);
        let door = Door::default();
        door.close();
        thread::scope(|scope| {
            let backup = scope.spawn(|| db.backup_with_progress("/backup", &mut |_| door.pass()));
            until("the backup to begin", || door.is_waited_at());
            write(500..2500);
            assert!(db.stats().wal_bytes > 3 * MIB / 2);
            door.open();
            backup.join().unwrap().unwrap();
        });
        write(2500..2600);
        let wal_bytes = db.stats().wal_bytes;
        // The last write may have been admitted just below the bound.
        let bytes_max = MIB + 2 * VALUE.len() as u64;
        assert!(wal_bytes <= bytes_max, "{wal_bytes} bytes");
    });
}

/// Regression: a verification at a low rate kept all segments of the log for hours, and writers did not
/// wait for the log to become shorter.
#[test]
fn the_log_keeps_within_its_bound_beside_a_slow_verification_of_the_tables() {
    must_end(|| {
        let (db, tables) = with_bounded_log();
        let write = |rounds| write_in_turn(&tables, rounds);
        write(0..500);
        db.flush().unwrap();
        write(500..600);
        let log_bytes = db.stats().wal_bytes;
        let door = Door::default();
        door.close();
        thread::scope(|scope| {
            let verification = scope.spawn(|| {
                db.verify_all(|now| {
                    if now.bytes_done > log_bytes {
                        door.pass();
                    }
                })
            });
            until("the verification to read tables", || door.is_waited_at());
            write(600..2600);
            let wal_bytes = db.stats().wal_bytes;
            door.open();
            // The last write may have been admitted just below the bound.
            let bytes_max = MIB + 2 * VALUE.len() as u64;
            assert!(wal_bytes <= bytes_max, "{wal_bytes} bytes");
            assert_eq!(verification.join().unwrap().unwrap().findings, []);
        });
    });
}

/// Regression: the indexes and filters of 1 TB of data took 31 GB of memory outside of the block
/// cache, and no option limited them.
#[test]
fn memtables_indexes_filters_and_blocks_share_one_budget() {
    let memory_bytes = 8 * MIB;
    let mem = MemDisk::new();
    let options = Options {
        memory_bytes: Some(memory_bytes),
        file_bytes: MIB,
        ..manual(&mem)
    };
    let (db, app) = open(options.clone());
    let stats = db.stats();
    assert_eq!(stats.memtable_bytes_max, memory_bytes / 4);
    assert_eq!(stats.cache_bytes_max, memory_bytes / 4 * 3);
    assert_eq!(stats.memory_bytes_max, Some(memory_bytes));
    // Small blocks make the index large.
    let sstable = SsTableOptions {
        block_bytes: 128,
        ..SsTableOptions::default()
    };
    let indexed = one_table::table_options(sstable);
    let table = app.table("t", indexed).unwrap();
    for i in 0..30_000_u32 {
        table.put(&i.to_be_bytes(), &[i as u8; 20]).unwrap();
    }
    db.flush().unwrap();
    let look = |db: &Db| {
        let table = db.existing_keyspace("app").unwrap();
        let table = table.existing_table("t").unwrap();
        (0..30_000_u32).for_each(|i| assert!(table.get(&i.to_be_bytes()).unwrap().is_some()));
        let stats = db.stats();
        let (indexes, tables) = (stats.index_bytes, stats.open_table_bytes);
        // A filter of ten bits for each key is the least.
        assert!(indexes > 30_000 * 10 / 8, "{indexes}");
        assert!(indexes < stats.cache_bytes);
        assert!((1000..20_000).contains(&tables), "{tables}");
        let left = memory_bytes / 4 * 3 - tables;
        // The capacity follows the memory of open tables in steps, each a 256th of what both share (three
        // quarters of `memory_bytes`), and so it differs by less than the tolerance here.
        let about = left - memory_bytes / 128..=left + memory_bytes / 128;
        assert!(about.contains(&stats.cache_bytes_max), "{stats:?}");
        let all = stats.memtable_bytes + tables + stats.cache_bytes;
        assert!(all <= memory_bytes, "{all}");
        (indexes, tables)
    };
    let indexes = look(&db);
    drop((table, app, db));
    let (db, app) = open(options);
    // One block, and what leads to it.
    let table = app.existing_table("t").unwrap();
    assert!(table.get(&7_u32.to_be_bytes()).unwrap().is_some());
    let stats = db.stats();
    assert!(stats.index_bytes > 1000, "{stats:?}");
    assert!(stats.cache_bytes > stats.index_bytes, "{stats:?}");
    drop(table);
    assert_eq!(look(&db), indexes, "it is the same when they are opened");
    app.drop_table("t").unwrap();
    let stats = db.stats();
    let left = [stats.index_bytes, stats.open_table_bytes, stats.cache_bytes];
    assert_eq!(left, [0; 3]);
    let whole = memory_bytes / 4 * 3;
    assert!(stats.cache_bytes_max > whole - memory_bytes / 128);
}
