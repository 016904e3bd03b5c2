//! Verifications and restores of an open database: the files that they keep meanwhile, and the space that they
//! leave.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, FileSystem, Options, RestoreReport};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::one_table::{open, uncompressed};
use crate::common::{DIR, copy_dir, files, manual, on_disk};

const MARK_BYTES: u64 = 64 << 20;

fn options(mem: &MemDisk) -> Options {
    Options {
        low_water_bytes: MARK_BYTES,
        memtable_bytes: 1 << 20,
        ..manual(mem)
    }
}

/// Creates a database with the same keys in four runs, each of 200 kB.
fn database(options: Options) -> Db {
    let (db, _, table) = open(options, uncompressed());
    for round in 0..4 {
        for key in 0..200_u8 {
            table.put(&[key], &[round; 1000]).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

fn set_free(mem: &MemDisk, bytes: u64) {
    mem.set_capacity_bytes(Some(mem.used_bytes() + bytes));
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::DiskFull { path } if path == Path::new(DIR))
}

/// Regression: a verification kept replaced files until all writes were refused for lack of space.
#[test]
fn a_verification_ends_before_the_disk_is_full() {
    let mem = MemDisk::new();
    let db = database(options(&mem));
    let verify_with = |free_bytes: u64| {
        set_free(&mem, 8 * MARK_BYTES);
        db.verify_all(|_| set_free(&mem, free_bytes))
    };
    let error = verify_with(2 * MARK_BYTES - 1).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert_eq!(verify_with(2 * MARK_BYTES).unwrap().findings, []);
}

/// Regression: a restore that never waited kept replaced files until all writes were refused for lack of space.
#[test]
fn a_restore_ends_before_the_disk_is_full() {
    let mem = MemDisk::new();
    let db = database(options(&mem));
    db.backup("/whole").unwrap();
    let restore_with = |free_bytes: u64| {
        set_free(&mem, 8 * MARK_BYTES);
        db.restore_while("/whole", |_| {
            set_free(&mem, free_bytes);
            ControlFlow::Continue(())
        })
    };
    let error = restore_with(2 * MARK_BYTES - 1).unwrap_err();
    assert!(is_full(&error), "{error}");
    let restored = restore_with(2 * MARK_BYTES).unwrap();
    assert_eq!(restored, Some(RestoreReport::default()));
}

/// Regression: a restore copied a damaged file without a look at the free space.
#[test]
fn a_restore_copies_a_file_only_while_enough_space_is_left() {
    let mem = MemDisk::new();
    let options = Options {
        // A file is copied in more than one piece.
        file_bytes: 1 << 20,
        ..options(&mem)
    };
    let db = database(options.clone());
    db.backup("/linked").unwrap();
    copy_dir(&mem, "/linked", "/whole");
    drop(db);
    let path = files(&mem, ".sst").remove(0);
    let file_bytes = mem.file_len(&path).unwrap();
    // While this is true, other writers take the space for the rest of a file that is being copied.
    let has_writers = Arc::new(AtomicBool::new(false));
    let (disk, write) = (mem.clone(), Arc::clone(&has_writers));
    let hook = move |call: Call, path: &Path| {
        let is_second_piece = matches!(call, Call::Read { from, .. } if from >= 128 << 10);
        if is_second_piece && path.starts_with("/whole") && write.load(Ordering::Relaxed) {
            set_free(&disk, 2 * MARK_BYTES);
        }
        Ok(())
    };
    let db = Db::open(DIR, on_disk(HookedDisk::new(&mem, hook), options)).unwrap();
    mem.remove(&path).unwrap();
    let restore_with = |free_bytes: u64| {
        set_free(&mem, 8 * MARK_BYTES);
        db.restore_while("/whole", |_| {
            set_free(&mem, free_bytes);
            ControlFlow::Continue(())
        })
    };
    let enough_bytes = 2 * MARK_BYTES + file_bytes;
    let error = restore_with(enough_bytes - 1).unwrap_err();
    assert!(is_full(&error), "{error}");
    has_writers.store(true, Ordering::Relaxed);
    let error = restore_with(enough_bytes).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert!(!mem.exists(&path).unwrap());
    has_writers.store(false, Ordering::Relaxed);
    let report = restore_with(enough_bytes).unwrap().unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
}

#[test]
fn the_files_that_a_verification_keeps_are_in_the_statistics() {
    let mem = MemDisk::new();
    let db = database(options(&mem));
    let held_bytes = || db.stats().backup_held_bytes;
    let mut held = None;
    let verified = db.verify_all(|_| {
        if held.is_none() {
            assert_eq!(held_bytes(), 0);
            db.compact().unwrap();
            held = Some(held_bytes());
        }
    });
    assert_eq!(verified.unwrap().findings, []);
    assert!(held.unwrap() > 500_000, "{held:?}");
    assert_eq!(held_bytes(), 0);
}

/// Regression: a verification that waited while it read the log held the log without bound.
#[test]
fn a_log_that_a_verification_reads_stays_within_its_bound() {
    let mem = MemDisk::new();
    let options = Options {
        wal_bytes_max: 64 << 10,
        memtable_bytes: 1 << 20,
        ..manual(&mem)
    };
    let (db, _, table) = open(options, uncompressed());
    let wal_bytes = || db.stats().wal_bytes;
    let grow_to = |bytes: u64| {
        while wal_bytes() < bytes {
            for key in 0..8_u8 {
                table.put(&[key], &[7; 1000]).unwrap();
            }
        }
    };
    for (writes_max, is_whole) in [(10, true), (300, false)] {
        db.flush().unwrap();
        grow_to(24 << 10);
        let mut writes = 0;
        let verified = db.verify_all(|_| {
            // The first call comes before the log is read: the verification waits there.
            while writes < writes_max {
                table.put(b"k", &[7; 1000]).unwrap();
                writes += 1;
                if writes % 10 == 0 {
                    db.flush().unwrap();
                    db.compact().unwrap();
                }
                assert!(wal_bytes() <= 80 << 10, "{}", wal_bytes());
            }
        });
        let verified = verified.unwrap();
        assert_eq!(verified.findings, []);
        assert_eq!(verified.wal_unchecked_bytes == 0, is_whole);
    }
}

#[test]
fn work_leaves_twice_the_mark_or_half_of_the_space_that_is_free_at_its_start() {
    let mem = MemDisk::new();
    let db = database(options(&mem));
    for (free, left) in [
        (8 * MARK_BYTES, 2 * MARK_BYTES),
        (2 * MARK_BYTES, MARK_BYTES),
        (1000, 500),
    ] {
        set_free(&mem, free);
        let watch = db.watch_space();
        watch.check().unwrap();
        set_free(&mem, left);
        watch.check().unwrap();
        set_free(&mem, left - 1);
        assert!(is_full(&watch.check().unwrap_err()), "{free}");
    }
}
