//! A disk without space: a write without space is refused whole, everything else goes on, and
//! writing works again as soon as there is space. Space that comes and goes during other operations
//! is tested in the crate `ebb-tests`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::hooked_disk::{Call, HookedDisk, is_sstable};
use crate::common::one_table::{open, small, table_options, uncompressed, users, write_run};
use crate::common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{Db, Durability, Error, Maintenance, Options, SsTableOptions, TableOptions};

#[test]
fn a_full_disk_is_a_clean_error_wherever_it_strikes() {
    let whole = fill(&MemDisk::new()).1.unwrap();
    for room in (0..whole).step_by(97) {
        let mem = MemDisk::new();
        mem.set_capacity_bytes(Some(room));
        let (acknowledged, outcome) = fill(&mem);
        match outcome {
            // What could not be flushed is in the log.
            Ok(_) => assert_eq!(acknowledged, WRITES),
            Err(Error::DiskFull { .. }) => {}
            Err(error) => panic!("with room for {room} bytes: {error}"),
        }
        mem.set_capacity_bytes(None);
        let (_db, table) = small(&mem, Durability::Os);
        let found = content(table.range::<&[u8], _>(..)).unwrap();
        assert_eq!(found.len(), acknowledged, "with room for {room} bytes");
    }
}

const WRITES: usize = 120;

/// Opens a database and writes [`WRITES`] values, or up to the first error; after each write, all
/// acknowledged ones are read back. Returns the number of acknowledged writes, and the bytes on
/// disk at the end or else the error.
fn fill(mem: &MemDisk) -> (usize, Result<u64, Error>) {
    let mut acknowledged = 0;
    let mut fill = || {
        let options = Options {
            durability: Durability::Os,
            memtable_bytes: 4 << 10,
            file_bytes: 1 << 10,
            wal_segment_bytes: 1 << 10,
            ..manual(mem)
        };
        let db = Db::open(DIR, options)?;
        let sstable = SsTableOptions {
            block_bytes: 256,
            ..SsTableOptions::default()
        };
        let table = db.keyspace("app")?.table("users", table_options(sstable))?;
        for i in 0..WRITES {
            let written = table.put(format!("key{i:03}").as_bytes(), &[i as u8; 100]);
            for i in 0..acknowledged {
                let found = table.get(format!("key{i:03}").as_bytes()).unwrap();
                assert_eq!(found.unwrap(), [i as u8; 100][..]);
            }
            written?;
            acknowledged = i + 1;
        }
        Ok(mem.used_bytes())
    };
    let outcome = fill();
    (acknowledged, outcome)
}

/// Once, the first failed flush stopped all writes for ever. A writer that waits for a flush must not
/// wait for space.
#[test]
fn background_threads_try_again_by_themselves_and_no_writer_waits_for_space() {
    let test = "background_threads_try_again_by_themselves_and_no_writer_waits_for_space";
    for_seeds(test, 4, |seed| {
        must_end(move || {
            let mem = MemDisk::new();
            let options = Options {
                durability: [Durability::Os, Durability::Sync][seed as usize % 2],
                maintenance: Maintenance::Background,
                frozen_memtables_max: 1,
                memtable_bytes: 4 << 10,
                wal_segment_bytes: 2 << 10,
                wal_bytes_max: 16 << 10,
                ..manual(&mem)
            };
            let (db, keyspace, table) = open(options.clone(), TableOptions::default());
            let mut expected = Content::new();
            let put = |i: u64, expected: &mut Content| {
                let key = format!("key{i:05}").into_bytes();
                let outcome = table.put(&key, &i.to_le_bytes().repeat(12));
                if outcome.is_ok() {
                    expected.insert(key, i.to_le_bytes().repeat(12));
                }
                outcome
            };
            let mut i = 0;
            for round in 0..3 {
                // More than twice a memtable, so a flush begins before the space ends.
                let room = mem.used_bytes() + 10_000;
                mem.set_capacity_bytes(Some(room));
                let refused = loop {
                    i += 1;
                    if let Err(e) = put(i, &mut expected) {
                        break e;
                    }
                };
                assert_is!(refused, Error::DiskFull { .. });
                let found = content(table.range::<&[u8], _>(..)).unwrap();
                assert!(found == expected, "{} of {}", found.len(), expected.len());
                mem.set_capacity_bytes(None);
                until("a write to be taken", || {
                    i += 1;
                    match put(i, &mut expected) {
                        Ok(()) => true,
                        Err(Error::DiskFull { .. }) => false,
                        Err(e) => panic!("{round}: {e}"),
                    }
                });
                // Only time makes the threads repeat the flush that failed.
                until("the flush to succeed", || {
                    db.stats().maintenance_failure.is_none()
                });
            }
            db.flush().unwrap();
            assert_eq!(db.stats().read_only_cause, None);
            db.sync().unwrap();
            lose_power(&mem, (db, keyspace, table), seed);
            let db = Db::open(DIR, options).unwrap();
            let table = users(&db);
            let found = content(table.range::<&[u8], _>(..)).unwrap();
            assert!(found == expected, "{} of {}", found.len(), expected.len());
        });
    });
}

/// Regression: a put whose own flush found no space returned an error, though it was committed.
#[test]
fn a_put_succeeds_though_the_flush_that_it_triggers_does_not() {
    let mem = MemDisk::new();
    let options = Options {
        memtable_bytes: 4 << 10,
        ..manual(&mem)
    };
    let (db, _, table) = open(options, uncompressed());
    // Room for the log, not for an SSTable beside it.
    let put = |bytes: usize| {
        mem.set_capacity_bytes(Some(mem.used_bytes() + bytes as u64 + 200));
        table.put(format!("{bytes}").as_bytes(), &vec![7; bytes])
    };
    put(5000).unwrap();
    assert!(db.stats().maintenance_failure.is_some());
    assert!(files(&mem, ".sst").is_empty());
    assert!(matches!(db.flush(), Err(Error::DiskFull { .. })));
    // Memtables must not grow for ever.
    let refused = (4000..4100).find_map(|bytes| put(bytes).err());
    assert_is!(refused, Some(Error::DiskFull { path }) if is_sstable(&path));
    mem.set_capacity_bytes(None);
    table.put(b"k", b"3").unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().maintenance_failure, None);
    assert_eq!(table.get(b"5000").unwrap().unwrap(), [7; 5000][..]);
    assert_eq!(table.get(b"4000").unwrap().unwrap(), [7; 4000][..]);
    assert_eq!(table.get(b"k").unwrap().unwrap(), "3");
}

/// Regression: file systems that allocate late, and thin volumes, report a lack of space only at a
/// sync. When that was the sync of file names, or of the manifest, all writes stopped until the
/// next opening.
#[test]
fn a_flush_that_finds_no_space_at_a_sync_leaves_nothing_and_is_done_again() {
    // The syncs of the two copies of the edit come behind the one of the file.
    for (op, nth) in [
        (FaultOp::Sync, 1),
        (FaultOp::Sync, 2),
        (FaultOp::Sync, 3),
        (FaultOp::SyncDir, 1),
    ] {
        let mem = MemDisk::new();
        let (db, table) = small(&mem, Durability::Sync);
        table.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        table.put(b"b", b"2").unwrap();
        let before = files(&mem, ".sst");
        mem.fail_next(op, nth, std::io::ErrorKind::QuotaExceeded);
        let outcome = db.flush();
        assert!(
            matches!(outcome, Err(Error::DiskFull { .. })),
            "{op:?} {nth}"
        );
        assert_eq!(mem.armed_faults(), 0);
        assert_eq!(files(&mem, ".sst"), before);
        assert_eq!(db.stats().read_only_cause, None);
        table.put(b"c", b"3").unwrap();
        db.flush().unwrap();
        lose_power(&mem, (db, table), 1);
        let (_db, table) = small(&mem, Durability::Sync);
        let found = content(table.range::<&[u8], _>(..)).unwrap();
        assert_eq!(found.len(), 3, "{op:?} {nth}");
    }
}

/// Regression: a merge that could not fit filled the disk, failed, gave the space back and began
/// again, for ever, and writers found no space meanwhile.
#[test]
fn a_merge_that_cannot_fit_does_not_begin_and_one_that_shrinks_does() {
    let mem = MemDisk::new();
    let created = Arc::new(AtomicUsize::new(0));
    let count = created.clone();
    let disk = HookedDisk::new(&mem, move |call, path| {
        if call == Call::Create && is_sstable(path) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let options = Options {
        disk: Arc::new(disk),
        memtable_bytes: 1 << 20,
        file_bytes: 1 << 20,
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let [distinct, same] =
        ["distinct", "same"].map(|name| keyspace.table(name, uncompressed()).unwrap());
    for run in 0..4 {
        write_run(&db, &distinct, 40 * run..40 * (run + 1));
    }
    let room = |bytes: u64| mem.set_capacity_bytes(Some(mem.used_bytes() + bytes));
    let before = created.load(Ordering::Relaxed);
    room(50_000);
    for _ in 0..3 {
        assert!(matches!(db.compact(), Err(Error::DiskFull { .. })));
    }
    assert_eq!(
        created.load(Ordering::Relaxed),
        before,
        "nothing is written"
    );
    assert!(db.stats().maintenance_failure.is_some());
    same.put(b"k", &[7; 1000]).unwrap();

    mem.set_capacity_bytes(None);
    for _ in 0..4 {
        write_run(&db, &same, 0..20);
    }
    // The merge makes 20 KB of 80, and they fit.
    room(40_000);
    assert!(matches!(db.compact(), Err(Error::DiskFull { .. })));
    let runs = |table: usize| db.stats().tables[table].runs.len();
    assert_eq!((runs(0), runs(1)), (4, 1));
    // The space that it freed is not enough for the other merge.
    room(200_000);
    db.compact().unwrap();
    assert_eq!((runs(0), runs(1)), (1, 1));
    assert_eq!(db.stats().maintenance_failure, None);
    assert_eq!(content(distinct.range::<&[u8], _>(..)).unwrap().len(), 160);
    db.verify().unwrap();
}
