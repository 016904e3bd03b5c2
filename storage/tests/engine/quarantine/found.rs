//! Damage that a verification, a backup, a restore or a check of a file finds on the disk comes into
//! quarantine, also while the system still caches the undamaged bytes. Damage that passes does not.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::*;
use ebb_storage::Db;
use ebb_storage::simulation::MemDisk;

use super::{back_up, database, files_of_users, options, paths, quarantine, read};

/// A byte in the first data block of a file.
const BYTE: u64 = 100;

/// Regression: only merges, openings and the regular checks of files put damage into quarantine. A verification
/// printed it, and the server went on saying that it had no damaged files.
#[test]
fn a_verification_a_backup_and_a_restore_put_damage_into_quarantine() {
    let verify = |db: &Db| {
        let found = db.verify_all(|_| ()).unwrap().findings;
        assert!(
            found[0].detail.ends_with("it is in quarantine"),
            "{found:?}"
        );
    };
    let backup = |db: &Db| assert_eq!(db.backup("/other").unwrap().damaged.len(), 1);
    let restore = |db: &Db| assert_eq!(db.restore("/copied").unwrap().left.len(), 1);
    let ways: [fn(&Db); 3] = [verify, backup, restore];
    for way in ways {
        let (mem, model) = database(7);
        let path = files_of_users(&mem.fork()).remove(0);
        let db = Db::open(DIR, options(&mem)).unwrap();
        back_up(&mem, &db);
        let copied = Path::new("/copied").join(path.file_name().unwrap());
        for path in [&path, &copied] {
            mem.flip_bit(path, BYTE, 3).unwrap();
        }
        assert_eq!(quarantine(&db), []);
        way(&db);
        assert_eq!(paths(&quarantine(&db)), std::slice::from_ref(&path));
        read(&db, &model, &[path]);
    }
}

/// Opens the database on a disk that flips a bit of `path` when the system's cache drops its pages of the
/// file, `times` times.
fn open_with_flips(mem: &MemDisk, path: &Path, times: u32) -> Db {
    let (disk, path, done) = (mem.clone(), path.to_path_buf(), Arc::new(AtomicU32::new(0)));
    let hook = move |call, forgotten: &Path| {
        if call == Call::ForgetCached
            && forgotten == path
            && done.fetch_add(1, Ordering::Relaxed) < times
        {
            disk.flip_bit(&path, BYTE, 3)?;
        }
        Ok(())
    };
    Db::open(DIR, on_disk(HookedDisk::new(mem, hook), options(mem))).unwrap()
}

/// Regression: a verification and a check of a file read the pages that the system cached, and called a file
/// whole that was damaged on the disk. The next backup then took the place of the last good one.
#[test]
fn damage_under_cached_pages_is_found() {
    let verify = |db: &Db| assert_eq!(db.verify_all(|_| ()).unwrap().findings.len(), 1);
    let check = |db: &Db| {
        // There are fewer files than that.
        for _ in 0..100 {
            if let Some(mut check) = db.next_file_check(Duration::ZERO).unwrap() {
                check.read(&mut |_| ControlFlow::Continue(()));
                assert!(check.finish().unwrap());
            }
        }
    };
    let ways: [fn(&Db); 2] = [verify, check];
    for way in ways {
        let (mem, _) = database(7);
        let path = files_of_users(&mem.fork()).remove(0);
        let db = open_with_flips(&mem, &path, 1);
        way(&db);
        assert_eq!(paths(&quarantine(&db)), [path]);
    }
}

/// Regression: a verification called a file damaged after one wrong reading.
#[test]
fn what_a_verification_reads_right_at_the_second_time_is_whole() {
    let (mem, model) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    let db = open_with_flips(&mem, &path, 2);
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
    assert_eq!(quarantine(&db), []);
    assert_eq!(read(&db, &model, &[]).damaged, 0);
}
