//! Restores replace damaged and missing files by those of a backup, whether they end, are stopped or
//! lose the power.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, FileSystem, RestoreStep};

use super::{
    assert_other_is_whole, back_up, backed_up, database, delete_snapshots, files_of_users,
    for_each_power_loss, options, paths, quarantine, read, tables, unmerged_database, write,
};

#[test]
fn a_copied_backup_gives_back_everything_and_a_linked_one_has_the_damage_too() {
    let (mem, model) = backed_up(3);
    let mut restored = 0;
    for path in files_of_users(&mem.fork()) {
        for byte in (0..mem.file_len(&path).unwrap()).step_by(211) {
            let fork = mem.fork();
            fork.flip_bit(&path, byte, 5).unwrap();
            let _place = FailedAt(format!("{byte} of {}", path.display()));
            let (mut rng, mut model) = (rng(byte), model.clone());
            let db = Db::open(DIR, options(&fork)).unwrap();
            let [users, other] = tables(&db);
            for _ in 0..6 {
                write(&mut rng, &users, &mut model.now, 25);
                db.flush().unwrap();
                db.compact().unwrap();
            }
            // The merges may have replaced the file, if they did not read the damaged part: they read no
            // filters.
            let is_there = !db.verify_all(|_| ()).unwrap().findings.is_empty();
            let report = db.restore("/linked").unwrap();
            let left: Vec<_> = report.left.into_iter().map(|file| file.path).collect();
            let damaged = is_there.then(|| path.clone());
            assert_eq!((report.restored, left), (vec![], Vec::from_iter(damaged)));
            let report = db.restore("/copied").unwrap();
            assert_eq!(report.restored.len(), usize::from(is_there));
            assert!(!is_there || !fork.exists(&path).unwrap(), "it is gone");
            assert_eq!((report.left, quarantine(&db)), (vec![], vec![]));
            assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
            restored += report.restored.len();
            assert_eq!(read(&db, &model, &[]).damaged, 0);
            if is_there {
                // The backup has its own bytes: the damage of the restored file, which has the highest
                // number, is not in the backup.
                let again = files(&fork, ".sst").pop().unwrap();
                fork.flip_bit(&again, byte, 5).unwrap();
                assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
                assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
            }
            db.compact().unwrap();
            drop((users, other, db));
            let db = Db::open(DIR, options(&fork)).unwrap();
            read(&db, &model, &[]);
            write(&mut rng, &tables(&db)[0], &mut model.now, 25);
            db.flush().unwrap();
            db.compact().unwrap();
            read(&db, &model, &[]);
            assert_other_is_whole(&tables(&db)[1]);
        }
    }
    assert!(restored > 20, "{restored}");
}

/// Regression: a file that was deleted while the database had it open could still be read. So it
/// counted as undamaged, was not restored from the backup, and was missing at the next opening.
#[test]
fn a_file_that_is_removed_while_it_is_open_is_restored() {
    let (mem, model) = backed_up(3);
    let path = files_of_users(&mem.fork()).remove(0);
    let db = Db::open(DIR, options(&mem)).unwrap();
    mem.remove(&path).unwrap();
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    let report = db.restore("/copied").unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
    drop(db);
    let db = Db::open(DIR, options(&mem)).unwrap();
    assert_eq!(read(&db, &model, &[]).damaged, 0);
}

/// Regression: a restore dropped every file from the system's cache, so that other reads had to wait for
/// the disk. It also took locks wherever its caller had lowered the priority of the thread.
#[test]
fn a_restore_leaves_undamaged_files_in_the_caches_and_changes_nothing_while_it_reads() {
    let (mem, model) = backed_up(3);
    let damaged = files_of_users(&mem.fork()).remove(0);
    mem.flip_bit(&damaged, 100, 3).unwrap();
    let undamaged: Vec<PathBuf> = files(&mem, ".sst")
        .into_iter()
        .filter(|path| *path != damaged)
        .collect();

    let (forgotten, is_reading) = (Arc::new(Mutex::new(Vec::new())), Arc::default());
    let (noted, reads): (_, Arc<AtomicBool>) = (Arc::clone(&forgotten), Arc::clone(&is_reading));
    let hook = move |call: Call, path: &Path| {
        match call {
            Call::ForgetCached => noted.lock().unwrap().push(path.to_path_buf()),
            Call::Create | Call::SyncDir | Call::Change => {
                assert!(
                    !reads.load(Ordering::Relaxed),
                    "{call:?} of {}",
                    path.display()
                );
            }
            Call::Open | Call::Read { .. } => {}
        }
        Ok(())
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    let db = Db::open(DIR, options).unwrap();
    forgotten.lock().unwrap().clear();
    let mut read_bytes = 0;
    let restored = db.restore_while("/copied", |step| {
        if let RestoreStep::Read(now) = step {
            assert!(now.bytes_done > read_bytes && now.bytes_total >= now.bytes_done);
            read_bytes = now.bytes_done;
        }
        is_reading.store(step != RestoreStep::Lock, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    is_reading.store(false, Ordering::Relaxed);
    let report = restored.unwrap().unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert!(read_bytes > 0);
    let forgotten = forgotten.lock().unwrap();
    assert!(forgotten.contains(&damaged));
    assert!(!undamaged.iter().any(|path| forgotten.contains(path)));
    assert_eq!(read(&db, &model, &[]).damaged, 0);
}

/// Regression: a restore accepted an empty directory, such as the mount point of a disk that is not
/// mounted, as a backup.
#[test]
fn a_folder_without_files_is_refused_as_a_backup() {
    let (mem, _) = database(3);
    mem.create_dir_all("/empty".as_ref()).unwrap();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let refused = db.restore("/empty").unwrap_err();
    assert!(matches!(refused, Error::InvalidRequest(_)), "{refused}");
}

#[test]
fn power_lost_at_any_call_leaves_a_file_in_quarantine_or_not_and_replaced_or_not() {
    let (mem, model) = unmerged_database();
    back_up(&mem, &Db::open(DIR, options(&mem)).unwrap());
    let path = files_of_users(&mem.fork()).pop().unwrap();
    mem.flip_bit(&path, 100, 3).unwrap();

    let (mut quarantined, mut replaced) = (0, 0);
    let merge_and_restore = |mem: &MemDisk| {
        let db = Db::open(DIR, options(mem))?;
        db.compact()?;
        db.restore("/copied")
    };
    for_each_power_loss(&mem, merge_and_restore, |mem| {
        let db = Db::open(DIR, options(mem)).unwrap();
        read(&db, &model, std::slice::from_ref(&path));
        let known = paths(&quarantine(&db));
        assert!(known.iter().all(|damaged| *damaged == path), "{known:?}");
        quarantined += known.len();
        replaced += usize::from(!mem.exists(&path).unwrap());
        db.compact().unwrap();
        assert_eq!(db.restore("/copied").unwrap().left, []);
        assert_eq!(read(&db, &model, &[]).damaged, 0);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
        assert!(!mem.exists(&path).unwrap());
    });
    assert!(
        quarantined > 10 && replaced > 1,
        "{quarantined}, {replaced}"
    );
}

/// Regression: a restore copied a missing file under a new number. If the power was lost before the
/// manifest named the copy, the next opening found a missing file and a file that the manifest does
/// not name, and refused this combination. The same happened if the restore first copied a damaged
/// file, and another file was missing.
#[test]
fn power_lost_while_a_missing_file_is_restored_never_keeps_the_database_from_opening() {
    let (mem, mut model) = database(4);
    let db = Db::open(DIR, options(&mem)).unwrap();
    delete_snapshots(&db);
    model.snapshots.clear();
    back_up(&mem, &db);
    drop(db);
    let users = files_of_users(&mem.fork());
    // Files of the newest run are looked at first.
    let (missing, damaged) = (&users[0], &users[users.len() - 1]);
    let bad = [missing.clone(), damaged.clone()];
    mem.remove(missing).unwrap();
    damage_file(&mem, damaged, false);

    let mut restored = 0;
    let restore = |mem: &MemDisk| Db::open(DIR, options(mem))?.restore("/copied");
    for_each_power_loss(&mem, restore, |mem| {
        let db = Db::open(DIR, options(mem)).unwrap();
        read(&db, &model, &bad);
        restored += usize::from(mem.exists(missing).unwrap());
        assert_eq!(db.restore("/copied").unwrap().left, []);
        assert_eq!(read(&db, &model, &[]).damaged, 0);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
    });
    assert!(restored > 1, "{restored}");
}

/// Regression: a server that stopped could not end a running restore: its thread went on until the
/// process ended.
#[test]
fn a_restore_that_is_stopped_keeps_the_files_that_it_has_restored() {
    let (mem, model) = backed_up(4);
    let users = files_of_users(&mem.fork());
    let missing = &users[..2];
    missing.iter().for_each(|path| mem.remove(path).unwrap());
    let are_back = || {
        let back = missing.iter().filter(|path| mem.exists(path).unwrap());
        back.count()
    };

    let db = Db::open(DIR, options(&mem)).unwrap();
    let stopped = db.restore_while("/copied", |_| {
        if are_back() == 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert_eq!(stopped.unwrap(), None);
    assert_eq!(are_back(), 1);
    let report = db.restore("/copied").unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
}

/// Regression: a restore that was stopped while it read a file removed the files that merges had replaced
/// meanwhile, wherever its caller had lowered the priority of the thread.
#[test]
fn a_restore_that_is_stopped_while_it_reads_takes_its_locks_after_a_last_step() {
    let (mem, _) = backed_up(3);
    let db = Db::open(DIR, options(&mem)).unwrap();
    let mut steps = Vec::new();
    let stopped = db.restore_while("/copied", |step| {
        steps.push(step);
        if step == RestoreStep::Lock {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert_eq!(stopped.unwrap(), None);
    let last = &steps[steps.len() - 2..];
    assert!(
        matches!(last, [RestoreStep::Read(_), RestoreStep::Lock]),
        "{last:?}"
    );
}
