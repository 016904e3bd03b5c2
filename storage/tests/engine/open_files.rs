//! More tables than the number of files that the process may open, and a process that cannot open
//! any more file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::limited_disk::{EMFILE, ENOMEM, LimitedDisk};
use crate::common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    Db, Durability, Error, ErrorKind, Keyspace, Maintenance, Options, Table, TableOptions,
};

fn open(options: Options) -> (Db, Keyspace, Table) {
    one_table::open(options, TableOptions::default())
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Regression: every SSTable stayed open, so a merge found no free descriptor and made the database
/// read-only; after that the database did not open any more.
#[test]
fn hundreds_of_tables_are_written_read_and_opened_with_sixty_files() {
    must_end(|| {
        let mem = MemDisk::new();
        let disk = LimitedDisk::new(&mem, 60);
        let options = || Options {
            durability: Durability::Os,
            disk: Arc::new(disk.clone()),
            max_open_files: Some(30),
            file_bytes: 1 << 10,
            memtable_bytes: 1 << 20,
            ..manual(&mem)
        };
        let (db, keyspace, table) = open(options());
        for round in 0..3_u8 {
            for n in 0..3000 {
                table.put(&key(n), &[round; 100]).unwrap();
            }
            db.flush().unwrap();
            if round == 0 {
                keyspace.create_snapshot("first").unwrap();
            }
        }
        let check = |keyspace: &Keyspace, table: &Table| {
            for n in [0, 1, 1499, 2999] {
                assert_eq!(table.get(&key(n)).unwrap().unwrap()[..], [2; 100]);
            }
            let rows = content(table.range::<&[u8], _>(..)).unwrap();
            assert!(rows.len() == 3000 && rows.values().all(|value| value[..] == [2; 100]));
            let first = keyspace.snapshot("first").unwrap().table("users").unwrap();
            let rows = content(first.range::<&[u8], _>(..)).unwrap();
            assert!(rows.len() == 3000 && rows.values().all(|value| value[..] == [0; 100]));
        };
        assert!(files_in_use(&db) > 200);
        check(&keyspace, &table);
        db.compact().unwrap();
        check(&keyspace, &table);
        assert!(files_in_use(&db) > 200);
        drop((db, keyspace, table));
        assert_eq!(disk.open(), 0);
        let (db, keyspace, table) = open(options());
        check(&keyspace, &table);
        assert!(disk.open() <= 40, "{} are open", disk.open());
        assert_eq!(disk.refused(), 0, "the cache keeps to its number");
        db.verify().unwrap();
    });
}

/// Other code of the process holds all file descriptors that the process may have: flushes and
/// merges wait for one, and then go on.
#[test]
fn a_process_without_a_file_to_open_goes_on_when_it_has_one() {
    goes_on_after(EMFILE);
}

/// Regression: in a cgroup with little memory, a call that found no memory stopped all writes.
#[test]
fn a_system_without_memory_for_calls_goes_on_when_it_has_some() {
    goes_on_after(ENOMEM);
}

fn goes_on_after(error: i32) {
    must_end(move || {
        let mem = MemDisk::new();
        let disk = LimitedDisk::failing_with(&mem, 60, error);
        let (db, _keyspace, table) = open(Options {
            durability: Durability::Os,
            maintenance: Maintenance::Background,
            disk: Arc::new(disk.clone()),
            wal_segment_bytes: 10 << 10,
            ..manual(&mem)
        });
        let put_all = |value: u8| {
            for n in 0..300 {
                // A commit does not wait for as long as it takes.
                while let Err(error) = table.put(&key(n), &[value; 100]) {
                    assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
                }
            }
        };
        for value in 0..5 {
            disk.set_max(0);
            thread::scope(|scope| {
                let flush = scope.spawn(|| {
                    // New segments of the log, a run, and merges.
                    put_all(value);
                    db.flush().unwrap();
                    db.compact().unwrap();
                });
                let refused = disk.refused();
                until("files to be refused again and again", || {
                    disk.refused() >= refused + 10
                });
                assert!(!flush.is_finished());
                disk.set_max(60);
            });
        }
        table.put(&key(7), b"written").unwrap();
        assert_eq!(table.get(&key(7)).unwrap().unwrap(), "written");
        assert_eq!(table.get(&key(8)).unwrap().unwrap()[..], [4; 100]);
        db.verify().unwrap();
    });
}

/// Regression: a commit waited for ever for a descriptor, and all other writers waited for the
/// commit.
#[test]
fn a_commit_without_a_file_for_its_segment_is_refused_and_the_next_one_is_written() {
    is_refused_for(EMFILE, "ulimit -n");
}

#[test]
fn a_commit_without_memory_for_its_segment_is_refused_and_the_next_one_is_written() {
    is_refused_for(ENOMEM, "MemoryMax=");
}

fn is_refused_for(error: i32, advice: &'static str) {
    must_end(move || {
        let mem = MemDisk::new();
        let disk = LimitedDisk::failing_with(&mem, 60, error);
        let options = || Options {
            durability: Durability::Sync,
            disk: Arc::new(disk.clone()),
            wal_segment_bytes: 100,
            ..manual(&mem)
        };
        let (db, keyspace, table) = open(options());
        table.put(&key(0), &[0; 100]).unwrap();
        disk.set_max(0);
        let error = table.put(&key(1), &[1; 100]).unwrap_err();
        assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
        for part in ["nothing was written", advice] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(table.get(&key(1)).unwrap(), None);
        disk.set_max(60);
        table.put(&key(2), &[2; 100]).unwrap();
        drop((db, keyspace, table));
        let (_db, _keyspace, table) = open(options());
        let rows = content(table.range::<&[u8], _>(..)).unwrap();
        assert!(rows.keys().eq([&key(0)[..], &key(2)[..]]));
    });
}

/// Regression: if the system had no memory for the bytes of a commit, all writes stopped.
#[test]
fn a_commit_that_finds_no_memory_is_cut_off_and_the_next_one_is_written() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem));
    table.put(&key(0), &[0; 100]).unwrap();
    mem.fail_next(FaultOp::Append, 1, io::ErrorKind::OutOfMemory);
    let error = table.put(&key(1), &[1; 100]).unwrap_err();
    assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
    table.put(&key(2), &[2; 100]).unwrap();
    drop((db, keyspace, table));
    let (_db, _keyspace, table) = open(manual(&mem));
    let rows = content(table.range::<&[u8], _>(..)).unwrap();
    assert!(rows.keys().eq([&key(0)[..], &key(2)[..]]));
}

#[test]
fn a_commit_takes_spare_descriptors_which_are_held_again_later() {
    must_end(|| {
        let mem = MemDisk::new();
        let disk = LimitedDisk::new(&mem, 60);
        let (db, _keyspace, table) = open(Options {
            disk: Arc::new(disk.clone()),
            durability: Durability::Os,
            wal_segment_bytes: 100,
            ..manual(&mem)
        });
        for n in 0..3 {
            let (before, refused) = (disk.open(), disk.refused());
            // The full segment gives back two descriptors; the new one needs two at once.
            disk.set_max(before - 1);
            table.put(&key(n), &[0; 100]).unwrap();
            assert!(disk.refused() > refused, "no spare was needed");
            assert!(disk.open() <= before - 2, "the spares are closed");
            disk.set_max(60);
            db.flush().unwrap();
            assert!(disk.open() >= before, "they are held again");
        }
    });
}

/// Regression: a call that waited for a descriptor closed tables and then paused; meanwhile readers
/// opened the tables again, so the call never got a descriptor.
#[test]
fn a_flush_gets_a_file_among_readers_of_more_tables_than_can_be_open() {
    must_end(|| {
        let mem = MemDisk::new();
        let disk = LimitedDisk::new(&mem, 200);
        let (db, _keyspace, table) = open(Options {
            durability: Durability::Os,
            disk: Arc::new(disk.clone()),
            file_bytes: 1 << 10,
            ..manual(&mem)
        });
        for n in 0..1000 {
            table.put(&key(n), &[1; 100]).unwrap();
        }
        db.flush().unwrap();
        assert!(files_in_use(&db) > 60);
        disk.set_max(30);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = SetOnDrop(&is_over);
            for reader in 0..3 {
                let (table, is_over) = (&table, &is_over);
                scope.spawn(move || {
                    for n in (0..1000).cycle().step_by(7 + reader) {
                        assert_eq!(table.get(&key(n)).unwrap().unwrap()[..], [1; 100]);
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            for _ in 0..20 {
                table.put(&key(2000), b"new").unwrap();
                db.flush().unwrap();
            }
        });
        assert!(disk.refused() > 0);
    });
}

/// Regression: if no second file could be opened, the start of a database waited for ever, with the
/// directory locked.
#[test]
fn an_opening_without_files_fails_and_the_next_one_does_not() {
    must_end(|| {
        let mem = MemDisk::new();
        let disk = LimitedDisk::new(&mem, 1);
        let options = || on_disk(disk.clone(), manual(&mem));
        let error = Db::open(DIR, options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("ulimit -n"), "{error}");
        disk.set_max(60);
        let (_db, _keyspace, table) = open(options());
        table.put(b"k", b"v").unwrap();
    });
}
