//! Files that do not open and are not known to be damaged, and files in quarantine that are whole
//! after all.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Error, ErrorKind, Event, FileSystem, ManualClock, Options, RestoredFile, TableFiles,
};

use super::{
    Answers, assert_other_is_whole, backed_up, database, files_of_users, key, one_run, options,
    paths, quarantine, read, tables, unmerged_database, write,
};

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const HOUR_MS: u64 = 3_600_000;

/// Options of a database whose disk fails to open, or to read, one file while `is_bad` is set, and
/// the clock of the database.
struct Fixture {
    options: Options,
    is_bad: Arc<AtomicBool>,
    clock: ManualClock,
}

/// Creates a fixture on whose disk the file `path` is bad: if `errno` is EIO, reads of the file
/// fail with this error; with another `errno`, opening the file fails.
fn fixture(mem: &MemDisk, path: &Path, errno: i32) -> Fixture {
    let is_bad = Arc::new(AtomicBool::new(true));
    let clock = ManualClock::at_ms(2 * HOUR_MS);
    let (bad_now, bad_path) = (is_bad.clone(), path.to_path_buf());
    let hook = move |call: Call, path: &Path| {
        let fails = match call {
            Call::Open => errno != EIO,
            Call::Read { .. } => errno == EIO,
            _ => false,
        };
        if fails && path == bad_path && bad_now.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(())
    };
    let options = Options {
        disk: Arc::new(HookedDisk::new(mem, hook)),
        clock: Arc::new(clock.clone()),
        ..options(mem)
    };
    Fixture {
        options,
        is_bad,
        clock,
    }
}

fn unreadable(db: &Db) -> Vec<PathBuf> {
    let tables = db.stats().tables.into_iter();
    let files = tables.flat_map(|table| table.unreadable);
    files.map(|file| file.path).collect()
}

fn is_io_of(error: &Error, file: &Path) -> bool {
    matches!(error, Error::Io { path, .. } if path == file)
}

/// Regression: the database did not open if a file was missing, or if a part of a file could not be
/// read.
#[test]
fn an_opening_goes_on_without_a_file_that_cannot_be_read() {
    let (mem, model) = backed_up(6);
    let mut all = Answers::default();
    for path in files_of_users(&mem.fork()) {
        for errno in [ENOENT, EIO] {
            let _place = FailedAt(format!("error {errno} of {}", path.display()));
            let bad = std::slice::from_ref(&path);
            let (fork, mut model, mut rng) = (mem.fork(), model.clone(), rng(5));
            let it = fixture(&fork, &path, errno);
            for copy in ["/first", "/second"] {
                let db = Db::open(DIR, it.options.clone()).unwrap();
                let answers = read(&db, &model, bad);
                all.right += answers.right;
                all.damaged += answers.damaged;
                assert_eq!((quarantine(&db), unreadable(&db)), (vec![], bad.to_vec()));
                let health = db.health();
                let named = [health.damaged_tables, health.left_out_tables];
                assert_eq!(named, [["app.users"]; 2]);

                let [users, other] = tables(&db);
                write(&mut rng, &users, &mut model.now, 25);
                other.put(&key(1), &key(1)).unwrap();
                db.flush().unwrap();
                let error = db.compact().unwrap_err();
                assert!(is_io_of(&error, &path), "{error}");
                read(&db, &model, bad);
                assert_other_is_whole(&other);
                assert_eq!(db.stats().read_only_cause, None);
                let findings = db.verify_all(&mut |_| ()).unwrap().findings;
                assert!(!findings.is_empty() && findings.iter().all(|it| it.path == path));

                let made = db.backup(copy).unwrap();
                let found = only(&made.damaged);
                assert_eq!((&found.path, found.offset), (&path, 0));
                assert_eq!(found.detail == "it is missing", errno == ENOENT);
                let in_copy = Path::new(copy).join(path.file_name().unwrap());
                assert!(!fork.exists(&in_copy).unwrap());
                read(&Db::open(copy, options(&fork)).unwrap(), &model, &[in_copy]);
            }

            let db = Db::open(DIR, it.options.clone()).unwrap();
            // A merge would replace the file, which is looked for below. In a pause, `compact` only tries
            // to open the file again.
            let pause = db.pause_merges();
            if errno == EIO {
                assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
            } else {
                it.is_bad.store(false, Ordering::Relaxed);
                db.compact().unwrap();
            }
            assert!(unreadable(&db).is_empty());
            assert_eq!(read(&db, &model, &[]).damaged, 0);
            assert_eq!(db.stats().maintenance_failure, None);
            assert_eq!(db.verify_all(&mut |_| ()).unwrap().findings, []);
            drop((db, pause));
            assert_eq!(fork.exists(&path).unwrap(), errno != EIO);
            let db = Db::open(DIR, it.options).unwrap();
            db.compact().unwrap();
            assert_eq!(read(&db, &model, &[]).damaged, 0);
        }
    }
    assert!(all.damaged > 100 && all.right > all.damaged, "{all:?}");
}

/// Regression: a file of the backup that could not be read ended the restore. No other file was
/// restored, and the error named a file of the database.
#[test]
fn a_file_of_the_backup_that_cannot_be_read_leaves_only_its_own_damage() {
    let (mem, model) = backed_up(6);
    let users = files_of_users(&mem.fork());
    let damaged = &users[..2];
    damaged
        .iter()
        .for_each(|path| damage_file(&mem, path, false));
    let bad = Path::new("/copied").join(damaged[0].file_name().unwrap());
    // The whole file, and all but its header of 20 bytes.
    for first_bad_byte in [0, 20] {
        let _place = FailedAt(format!("from byte {first_bad_byte}"));
        let fork = mem.fork();
        let hooked = bad.clone();
        let hook = move |call: Call, path: &Path| match call {
            Call::Read { to, .. } if path == hooked && to > first_bad_byte => {
                Err(io::Error::from_raw_os_error(EIO))
            }
            _ => Ok(()),
        };
        let options = on_disk(HookedDisk::new(&fork, hook), options(&fork));
        let db = Db::open(DIR, options).unwrap();
        let report = db.restore("/copied").unwrap();
        let paths_of = |files: &[RestoredFile]| -> Vec<PathBuf> {
            files.iter().map(|file| file.path.clone()).collect()
        };
        assert_eq!(paths_of(&report.left), damaged[..1]);
        assert_eq!(paths_of(&report.restored), damaged[1..]);
        let reason = &report.left[0].detail;
        assert!(reason.contains(bad.to_str().unwrap()), "{reason}");
        read(&db, &model, &damaged[..1]);
    }
}

/// Regression: two restores ran at once, and one of them copied a missing file that the other one
/// had just restored. This second copy had a new number, so after a crash the database could not be
/// opened if another file was missing.
#[test]
fn two_restores_at_once_copy_a_missing_file_once() {
    let (mem, model) = backed_up(6);
    let missing = files_of_users(&mem.fork()).remove(0);
    let before = files(&mem, ".sst");
    mem.remove(&missing).unwrap();

    // The handle with which another thread restores the file right after this one found it missing.
    let other = Arc::new(Mutex::new(None::<Db>));
    let (hooked, path_of_missing) = (other.clone(), missing.clone());
    let hook = move |call: Call, path: &Path| {
        if call != Call::Open || path != path_of_missing {
            return Ok(());
        }
        let other = hooked.lock().unwrap().take();
        let Some(db) = other else { return Ok(()) };
        assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
        Err(io::Error::from_raw_os_error(ENOENT))
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    let db = Db::open(DIR, options).unwrap();
    let mut handle = Some(db.clone());
    let restored = db.restore_while("/copied", |_| {
        if let Some(handle) = handle.take() {
            *other.lock().unwrap() = Some(handle);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(restored.unwrap().unwrap().left, []);
    let was_used = other.lock().unwrap().is_none();
    assert!(was_used, "another restore came between");
    assert_eq!(files(&mem, ".sst"), before);
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
}

/// A manifest that lost its last edits names files that merges have removed, and does not name the
/// files that merges wrote in their place. An opening would remove the latter as orphans, so it
/// must refuse such a manifest.
#[test]
fn an_opening_without_a_file_refuses_a_manifest_that_may_have_lost_its_end() {
    let (mem, model) = database(6);
    let path = files_of_users(&mem.fork()).remove(0);
    let unnamed = Path::new(DIR).join("999999.sst");
    mem.link(&path, &unnamed).unwrap();
    mem.remove(&path).unwrap();
    for _ in 0..2 {
        let error = Db::open(DIR, options(&mem)).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{text}");
        assert!(
            text.contains("999999.sst") && text.contains("ebb repair"),
            "{text}"
        );
    }
    mem.link(&unnamed, &path).unwrap();
    let db = Db::open(DIR, options(&mem)).unwrap();
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    assert!(!mem.exists(&unnamed).unwrap());
}

/// A file without read permission is a mistake of an operator, and must not be treated as damage.
#[test]
fn an_opening_refuses_a_file_that_it_has_no_permission_to_open() {
    let (mem, _) = database(6);
    let path = files_of_users(&mem.fork()).remove(0);
    let error = Db::open(DIR, fixture(&mem, &path, EACCES).options).unwrap_err();
    assert!(is_io_of(&error, &path), "{error}");
}

/// A pin keeps the open files of a table from removal, so that other processes can read them. It
/// could not keep a file that does not open: if the file could be opened later, the next merge
/// would remove it in spite of the pin.
#[test]
fn a_table_is_not_pinned_while_a_file_of_it_does_not_open() {
    let (mem, _) = database(9);
    let path = files_of_users(&mem.fork()).remove(0);
    let it = fixture(&mem, &path, ENOENT);
    let db = Db::open(DIR, it.options).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.create_snapshot("all").unwrap();
    let snapshot = keyspace.snapshot("all").unwrap();
    let users = snapshot.table("users").unwrap();
    let error = users.pin().unwrap_err();
    assert!(is_io_of(&error, &path), "{error}");
    it.is_bad.store(false, Ordering::Relaxed);
    db.compact().unwrap();
    users.pin().unwrap();
}

#[test]
fn a_file_that_did_not_open_is_tried_again_and_the_time_between_doubles() {
    let (mem, model) = database(8);
    let path = files_of_users(&mem.fork()).remove(0);
    let it = fixture(&mem, &path, ENOENT);
    let db = Db::open(DIR, it.options).unwrap();
    let waits = Arc::<Mutex<Vec<u64>>>::default();
    let of_events = waits.clone();
    db.on_event(move |event| {
        if let Event::LeftOut { retry_after, .. } = event {
            of_events.lock().unwrap().push(retry_after.as_secs());
        }
    });
    let [_, other] = tables(&db);
    // A write that fills a memtable looks for merges of all tables.
    let is_left_out_after = |wait_ms| {
        it.clock.advance_ms(wait_ms);
        other.put(b"k", &[0; 16 << 10]).unwrap();
        !unreadable(&db).is_empty()
    };
    for (wait_ms, failures) in [(999, 0), (1, 1), (1999, 1), (1, 2)] {
        assert!(is_left_out_after(wait_ms));
        assert_eq!(waits.lock().unwrap().len(), failures, "after {wait_ms} ms");
    }
    assert_eq!(*waits.lock().unwrap(), [2, 4]);
    it.is_bad.store(false, Ordering::Relaxed);
    assert!(is_left_out_after(3999));
    assert!(!is_left_out_after(1));
    assert_eq!(read(&db, &model, &[]).damaged, 0);
}

/// Regression: after the clock had been set back, a file that did not open was not tried again
/// until the clock had caught up with its earlier time.
#[test]
fn a_file_is_tried_again_though_the_clock_was_set_back() {
    let (mem, model) = database(8);
    let path = files_of_users(&mem.fork()).remove(0);
    let it = fixture(&mem, &path, ENOENT);
    let db = Db::open(DIR, it.options).unwrap();
    assert_eq!(unreadable(&db), [path]);
    it.clock.set_ms(HOUR_MS);
    it.is_bad.store(false, Ordering::Relaxed);
    let [_, other] = tables(&db);
    for (wait_ms, is_left_out) in [(999, true), (1, false)] {
        it.clock.advance_ms(wait_ms);
        // A write that fills a memtable looks for merges of all tables.
        other.put(b"k", &[0; 16 << 10]).unwrap();
        assert_eq!(!unreadable(&db).is_empty(), is_left_out);
    }
    assert_eq!(read(&db, &model, &[]).damaged, 0);
    assert_eq!(db.stats().maintenance_failure, None);
}

#[test]
fn what_an_opening_reads_at_the_second_time_is_whole() {
    let (mem, model) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    damage_file(&mem, &path, true);
    let (disk, is_bad) = (mem.clone(), AtomicBool::new(true));
    let hook = move |call: Call, called: &Path| {
        let is_second = call == Call::ForgetCached && called == path;
        if is_second && is_bad.swap(false, Ordering::Relaxed) {
            // The same bit once more.
            damage_file(&disk, &path, true);
        }
        Ok(())
    };
    let hooked = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    for options in [hooked, options(&mem)] {
        let db = Db::open(DIR, options).unwrap();
        assert_eq!(quarantine(&db), []);
        assert!(unreadable(&db).is_empty());
        assert_eq!(read(&db, &model, &[]).damaged, 0);
    }
}

#[test]
fn a_full_verification_ends_the_quarantine_of_a_whole_file_only() {
    for does_open in [true, false] {
        let (mem, model) = unmerged_database();
        let path = files_of_users(&mem.fork()).pop().unwrap();
        // Damages the file, and at the second call makes it whole again.
        let flip = || damage_file(&mem, &path, !does_open);
        flip();

        let db = Db::open(DIR, options(&mem)).unwrap();
        // A merge meets the damage, if the opening did not.
        db.compact().unwrap();
        let known = quarantine(&db);
        assert_eq!(paths(&known), std::slice::from_ref(&path));
        let verified = || {
            let report = db.verify_all(&mut |_| ()).unwrap();
            (report.lifted, report.findings.is_empty())
        };
        assert_eq!(verified(), (vec![], false));
        assert_eq!(quarantine(&db), known);
        flip();
        assert_eq!(verified(), (vec![path.display().to_string()], true));
        assert_eq!(quarantine(&db), []);
        assert_eq!(read(&db, &model, &[]).damaged, 0);
        drop(db);
        assert!(mem.exists(&path).unwrap());

        let db = Db::open(DIR, options(&mem)).unwrap();
        assert_eq!(quarantine(&db), []);
        db.compact().unwrap();
        assert_eq!(read(&db, &model, &[]).damaged, 0);
    }
}

/// Regression: a verification that had been cancelled still read every file in quarantine before it
/// ended.
#[test]
fn a_verification_that_is_stopped_ends_no_further_quarantine() {
    let mem = MemDisk::new();
    drop(one_run(&mem, 400));
    let damaged = &files(&mem, ".sst")[..3];
    // Damages the files, and at the second call makes them whole again.
    let flip = || {
        damaged
            .iter()
            .for_each(|path| damage_file(&mem, path, true))
    };
    flip();
    let db = Db::open(DIR, options(&mem)).unwrap();
    assert_eq!(paths(&quarantine(&db)), damaged);
    flip();

    let mut left = 2;
    let goes_on = || {
        let goes_on = left > 0;
        left -= 1;
        goes_on
    };
    let stopped = db.verify_while(goes_on, |_| panic!("it goes on to the files"));
    assert_eq!(stopped.unwrap(), None);
    assert_eq!(paths(&quarantine(&db)), damaged[2..]);
    let report = db.verify_all(|_| ()).unwrap();
    assert_eq!(report.lifted, [damaged[2].display().to_string()]);
    assert_eq!((quarantine(&db), report.findings), (vec![], vec![]));
}
