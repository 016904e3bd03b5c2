//! Backups: the files that they keep from being removed while they copy, the checks of these files,
//! and the state of the directory after a backup.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{Db, Error, FileSystem, MaintenanceProgress, Options, Table, repair, verify};

use crate::common::hooked_disk::{Call, HookedDisk, is_sstable};
use crate::common::one_table::{self, open, uncompressed, users};
use crate::common::{DIR, content, files, manual, on_disk, only};

const TARGET: &str = "/copy";

fn put_all(table: &Table, round: u8) {
    for key in 0..200_u8 {
        table.put(&[key], &[round; 1000]).unwrap();
    }
}

fn options(mem: &MemDisk) -> Options {
    Options {
        memtable_bytes: 1 << 20,
        wal_segment_bytes: 4 << 10,
        low_water_bytes: 64 << 20,
        ..manual(mem)
    }
}

/// Creates a database, on a new disk, with the same keys in four runs and in several segments of the log.
fn database() -> (MemDisk, Db) {
    let mem = MemDisk::new();
    let (db, _, table) = open(options(&mem), uncompressed());
    for round in 0..4 {
        put_all(&table, round);
        db.flush().unwrap();
    }
    put_all(&table, 4);
    (mem, db)
}

/// Makes the next backup copy its files instead of linking them: hard links into its target fail,
/// as on another file system. Links into the temporary folder beside the database, which a backup
/// makes first, succeed.
fn move_target_away(mem: &MemDisk, db: &Db) {
    let files = db.backup("/linked").unwrap().files;
    for nth in files + 1..=2 * files {
        mem.fail_next(FaultOp::Link, nth, ErrorKind::CrossesDevices);
    }
}

fn go_on(_: MaintenanceProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn assert_no_links(mem: &MemDisk) {
    let paths = mem.list(Path::new(DIR)).unwrap();
    let is_links = |path: &PathBuf| path.to_string_lossy().contains("/.backup-");
    assert!(!paths.iter().any(is_links), "{paths:?}");
}

#[test]
fn a_backup_under_way_holds_neither_the_log_nor_merged_files() {
    for is_linked in [true, false] {
        let (mem, db) = database();
        if !is_linked {
            move_target_away(&mem, &db);
        }
        let before = [files(&mem, ".sst"), files(&mem, ".log")];
        let len = |path: &PathBuf| mem.file_len(path).unwrap();
        let lens: Vec<u64> = before.iter().flatten().map(len).collect();
        let held_bytes = || db.stats().backup_held_bytes;
        let mut backup = db.start_backup(TARGET).unwrap();
        assert_eq!(held_bytes(), 0);
        db.flush().unwrap();
        db.compact().unwrap();
        for oldest in before.iter().map(|files| &files[0]) {
            assert!(!mem.exists(oldest).unwrap(), "{}", oldest.display());
        }
        let unneeded = before.iter().flatten().zip(lens);
        let unneeded = unneeded.filter(|(path, _)| !mem.exists(path).unwrap());
        assert_eq!(held_bytes(), unneeded.map(|(_, len)| len).sum::<u64>());
        assert!(backup.copy(&mut go_on).unwrap().is_continue());
        let info = backup.finish(&mut go_on).unwrap().unwrap();
        assert_eq!((info.linked_bytes > 0, info.damaged), (is_linked, vec![]));
        assert_eq!(held_bytes(), 0);
        assert_no_links(&mem);

        let copy = Db::open(TARGET, manual(&mem)).unwrap();
        copy.verify().unwrap();
        let table = users(&copy);
        let rows = content(table.range::<&[u8], _>(..)).unwrap();
        assert!(rows.len() == 200 && rows.values().all(|value| *value == [4; 1000]));
    }
}

#[test]
fn a_backup_with_a_damaged_block_is_complete_and_lists_the_file() {
    for is_linked in [true, false] {
        let (mem, db) = database();
        if !is_linked {
            move_target_away(&mem, &db);
        }
        let damaged = files(&mem, ".sst").swap_remove(3);
        mem.flip_bit(&damaged, 100, 3).unwrap();
        let info = db.backup(TARGET).unwrap();
        assert_eq!(info.linked_bytes > 0, is_linked);
        let in_backup = Path::new(TARGET).join(damaged.file_name().unwrap());
        let listed: Vec<_> = info.damaged.into_iter().map(|file| file.path).collect();
        assert_eq!(listed, std::slice::from_ref(&in_backup));
        let copy = Db::open(TARGET, manual(&mem)).unwrap();
        let findings = copy.verify_all(&mut |_| ()).unwrap().findings;
        assert_eq!(findings[0].path, in_backup);

        let log = files(&mem, ".log").swap_remove(1);
        mem.flip_bit(&log, 100, 3).unwrap();
        assert_eq!(db.backup("/other").unwrap().damaged.len(), 2);
    }
}

#[test]
fn a_backup_links_all_files_but_one_that_was_missing_when_the_database_was_opened() {
    let (mem, _) = database();
    let missing = files(&mem, ".sst").swap_remove(3);
    let bytes = mem.read_all(&missing).unwrap();
    mem.remove(&missing).unwrap();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let oldest_segment = files(&mem, ".log").swap_remove(0);
    let mut backup = db.start_backup(TARGET).unwrap();
    db.flush().unwrap();
    assert!(!mem.exists(&oldest_segment).unwrap());
    assert!(backup.copy(&mut go_on).unwrap().is_continue());
    let info = backup.finish(&mut go_on).unwrap().unwrap();
    let found = only(&info.damaged);
    assert_eq!((&found.path, found.offset), (&missing, 0));
    assert_eq!(found.detail, "it is missing");
    assert!(info.linked_bytes > 0);
    assert_no_links(&mem);
    let in_backup = Path::new(TARGET).join(missing.file_name().unwrap());
    assert!(!mem.exists(&in_backup).unwrap());

    // A file that is back is whole in the next backup.
    mem.create(&missing).unwrap().append(&bytes).unwrap();
    assert_eq!(db.backup("/whole").unwrap().damaged, []);
    let copy = Db::open("/whole", options(&mem)).unwrap();
    copy.verify().unwrap();
}

/// Regression: the backup failed, because the file could not be linked.
#[test]
fn a_backup_lacks_a_file_whose_name_was_removed_while_it_was_open() {
    let (mem, db) = database();
    let removed = files(&mem, ".sst").swap_remove(3);
    mem.remove(&removed).unwrap();
    let info = db.backup(TARGET).unwrap();
    let found = only(&info.damaged);
    assert_eq!((&found.path, &*found.detail), (&removed, "it is missing"));
    assert!(info.linked_bytes > 0);
    assert_no_links(&mem);
    let in_backup = Path::new(TARGET).join(removed.file_name().unwrap());
    assert!(!mem.exists(&in_backup).unwrap());
    drop(Db::open(TARGET, options(&mem)).unwrap());
}

/// Regression: while a part of a file could not be read, each backup to another disk failed, and
/// the copied files were removed.
#[test]
fn a_copy_has_zeros_where_the_file_cannot_be_read() {
    // The header of a file is read by itself. The bad byte is in the rest of the first page.
    for (end, header_bytes) in [(".sst", 20), (".log", 32)] {
        let (mem, _) = database();
        let bad = files(&mem, end).swap_remove(1);
        let is_bad = Arc::new(AtomicBool::new(false));
        let (hooked, is_bad_now) = (bad.clone(), Arc::clone(&is_bad));
        // The disk has no links.
        let disk = HookedDisk::new(&mem, move |call, path| match call {
            Call::Read { from, to } if (from..to).contains(&100) && path == hooked => {
                if is_bad_now.load(Ordering::Relaxed) {
                    return Err(ErrorKind::Other.into());
                }
                Ok(())
            }
            _ => Ok(()),
        });
        let options = on_disk(disk, options(&mem));
        let db = Db::open(DIR, options).unwrap();
        is_bad.store(true, Ordering::Relaxed);
        let info = db.backup(TARGET).unwrap();
        let in_backup = Path::new(TARGET).join(bad.file_name().unwrap());
        let found = only(&info.damaged);
        assert_eq!(found.path, in_backup);
        assert!(found.detail.contains("cannot be read"), "{}", found.detail);
        let [bytes, copied] = [&bad, &in_backup].map(|path| mem.read_all(path).unwrap());
        assert_eq!(bytes.len(), copied.len());
        assert!(bytes[..header_bytes] == copied[..header_bytes]);
        assert!(copied[header_bytes..4096].iter().all(|byte| *byte == 0));
        assert!(bytes[4096..] == copied[4096..]);
        let findings = verify(TARGET, &manual(&mem), &mut |_| ()).unwrap().findings;
        assert!(!findings.is_empty() && findings.iter().all(|found| found.path == in_backup));

        // Once the file can be read again, the next backup replaces the copy.
        is_bad.store(false, Ordering::Relaxed);
        let second = db.backup(TARGET).unwrap();
        assert_eq!((second.damaged, second.older_stays), (vec![], false));
        let verified = verify(TARGET, &manual(&mem), &mut |_| ()).unwrap();
        assert_eq!(verified.findings, []);
    }
}

/// Regression: the backup failed.
#[test]
fn a_backup_lists_a_short_or_missing_segment_of_the_log() {
    for has_links in [true, false] {
        for is_missing in [true, false] {
            let (mem, db) = database();
            let db = if has_links {
                db
            } else {
                drop(db);
                counting_reads(&mem, |_| false).0
            };
            let log = files(&mem, ".log").swap_remove(1);
            if is_missing {
                mem.remove(&log).unwrap();
            } else {
                // Between the header and the end of the first record.
                mem.cut(&log, 100).unwrap();
            }
            let info = db.backup(TARGET).unwrap();
            let found = only(&info.damaged);
            let in_backup = Path::new(TARGET).join(log.file_name().unwrap());
            assert_eq!(found.path, if is_missing { log } else { in_backup });
            let detail = if is_missing { "missing" } else { "100 bytes" };
            assert!(found.detail.contains(detail), "{}", found.detail);
            let copied = contents(&mem, TARGET).into_keys();
            let is_counted = |path: &PathBuf| {
                let end = path.extension();
                end.is_some_and(|end| end == "sst" || end == "log")
            };
            assert_eq!(copied.filter(is_counted).count() as u64, info.files);
        }
    }
}

/// Regression: damage to the last record passed for a write that a crash had cut off, and so did a
/// header of zeros. A backup lacked commits and counted as good, and a verification found nothing.
#[test]
fn the_log_of_an_open_database_has_no_torn_tail() {
    type Damage = fn(&MemDisk, &Path, u64);
    let damages: [Damage; 2] = [
        |mem, log, len| mem.flip_bit(log, len - 1, 3).unwrap(),
        |mem, log, len| {
            mem.cut(log, 0).unwrap();
            // The bytes up to this length are zeros.
            mem.cut(log, len).unwrap();
        },
    ];
    for (case, damage) in damages.into_iter().enumerate() {
        let (mem, db) = database();
        let log = files(&mem, ".log").pop().unwrap();
        let len = mem.file_len(&log).unwrap();
        damage(&mem, &log, len);
        let info = db.backup(TARGET).unwrap();
        let listed: Vec<_> = info.damaged.into_iter().map(|found| found.path).collect();
        let in_backup = Path::new(TARGET).join(log.file_name().unwrap());
        assert_eq!(listed, [in_backup], "case {case}");
        let verified = db.verify_all(|_| ()).unwrap();
        let found = verified.findings.into_iter().map(|found| found.path);
        let found: Vec<_> = found.collect();
        assert_eq!(found, std::slice::from_ref(&log), "case {case}");
        assert_eq!(verified.wal_torn_bytes, 0, "case {case}");
        // A segment that was cut between two records.
        mem.cut(&log, 32).unwrap();
        let findings = db.verify_all(|_| ()).unwrap().findings;
        assert!(
            findings.iter().any(|found| found.path == log),
            "case {case}"
        );
    }
}

/// Makes a backup, and cancels it after `steps_max` steps. Returns whether it was complete by then.
fn back_up_for(db: &Db, steps_max: u64) -> bool {
    let mut steps = 0;
    let mut step = |_: MaintenanceProgress| {
        steps += 1;
        if steps > steps_max {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let mut backup = db.start_backup(TARGET).unwrap();
    backup.copy(&mut step).unwrap().is_continue() && backup.finish(&mut step).unwrap().is_some()
}

#[test]
fn a_backup_that_is_cancelled_at_any_step_leaves_nothing_behind() {
    let (mem, db) = database();
    for steps_max in (0..).step_by(3) {
        let is_complete = back_up_for(&db, steps_max);
        assert_no_links(&mem);
        if is_complete {
            break;
        }
        let left = mem.list(Path::new(TARGET)).unwrap();
        assert_eq!(left, [Path::new(TARGET).join("LOCK")]);
    }
    Db::open(TARGET, manual(&mem)).unwrap().verify().unwrap();
}

/// Returns the files of a database in `dir`, but for its lock, and their bytes.
fn contents(mem: &MemDisk, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = mem.list(Path::new(dir)).unwrap().into_iter();
    let paths = paths.filter(|path| !path.ends_with("LOCK"));
    let read = |path: PathBuf| (path.clone(), mem.read_all(&path).unwrap());
    paths.map(read).collect()
}

#[test]
fn a_second_backup_copies_missing_files_and_removes_unneeded_ones() {
    let (mem, db) = database();
    move_target_away(&mem, &db);
    let first = db.backup(TARGET).unwrap();
    mem.clear_faults();
    let sstable_bytes = |dir: &str| -> u64 {
        let files = contents(&mem, dir).into_iter();
        let sstables = files.filter(|(path, _)| path.extension().is_some_and(|it| it == "sst"));
        sstables.map(|(_, bytes)| bytes.len() as u64).sum()
    };
    let old_bytes = sstable_bytes(TARGET);
    assert!(first.kept_bytes == 0 && first.copied_bytes > old_bytes);

    db.flush().unwrap();
    let second = db.backup(TARGET).unwrap();
    assert_eq!(second.kept_bytes, old_bytes);
    assert_eq!(second.linked_bytes, sstable_bytes(DIR) - old_bytes);
    assert_eq!(second.damaged, []);

    db.compact().unwrap();
    db.backup(TARGET).unwrap();
    assert_eq!(sstable_bytes(TARGET), sstable_bytes(DIR));
    let names = |dir: &str, part: &str| {
        let files = contents(&mem, dir).into_keys();
        files
            .filter(|path| path.to_string_lossy().contains(part))
            .count()
    };
    assert_eq!(names(TARGET, "MANIFEST-"), 2);
    assert!(names(TARGET, ".log") <= names(DIR, ".log"));
    // A reader does not make it a database of its own.
    let options = Options {
        create_if_missing: false,
        ..options(&mem)
    };
    let verified = verify(TARGET, &options, &mut |_| ()).unwrap();
    assert_eq!(verified.findings, []);
    drop(Db::open_read_only(TARGET, options.clone()).unwrap());
    let last = db.backup(TARGET).unwrap();
    assert_eq!((last.linked_bytes, last.damaged), (0, vec![]));
    assert!(last.copied_bytes <= log_bytes(&mem));
    let copy = Db::open(TARGET, options).unwrap();
    copy.verify().unwrap();
    let table = users(&copy);
    let rows = content(table.range::<&[u8], _>(..)).unwrap();
    assert!(rows.len() == 200 && rows.values().all(|value| *value == [4; 1000]));
}

fn log_bytes(mem: &MemDisk) -> u64 {
    let logs = files(mem, ".log").into_iter();
    logs.map(|path| mem.file_len(path).unwrap()).sum()
}

#[test]
fn a_second_backup_that_is_cancelled_or_dropped_leaves_the_first() {
    let (mem, db) = database();
    db.backup(TARGET).unwrap();
    let first = contents(&mem, TARGET);
    put_all(&users(&db), 5);
    db.flush().unwrap();
    for steps_max in (0..).step_by(3) {
        let is_complete = back_up_for(&db, steps_max);
        assert_no_links(&mem);
        if is_complete {
            break;
        }
        assert!(contents(&mem, TARGET) == first, "{steps_max} steps");
    }
    Db::open(TARGET, manual(&mem)).unwrap().verify().unwrap();
}

#[test]
fn a_second_backup_with_damage_leaves_the_first() {
    let (mem, db) = database();
    assert!(!db.backup(TARGET).unwrap().older_stays);
    let first = contents(&mem, TARGET);
    db.flush().unwrap();
    let newest = files(&mem, ".sst").pop().unwrap();
    mem.flip_bit(&newest, 100, 3).unwrap();
    let second = db.backup(TARGET).unwrap();
    assert_eq!((second.damaged.len(), second.older_stays), (1, true));
    assert!(contents(&mem, TARGET) == first);
    assert_no_links(&mem);
    // Elsewhere it is made.
    let other = db.backup("/other").unwrap();
    assert_eq!((other.damaged.len(), other.older_stays), (1, false));
}

#[test]
fn only_a_backup_of_the_same_database_that_was_not_opened_for_writing_is_replaced() {
    let (mem, db) = database();
    let refused = |db: &Db, dir: &str, why: &str| {
        let before = contents(&mem, dir);
        one_table::refused(db.backup(dir), &[dir, why]);
        assert!(contents(&mem, dir) == before);
    };
    db.backup(TARGET).unwrap();
    let other = Db::open("/other", manual(&mem)).unwrap();
    refused(&other, TARGET, "another database");
    refused(&db, "/other", "no backup");
    // Rows that a user writes there must not be lost.
    drop(Db::open(TARGET, manual(&mem)).unwrap());
    refused(&db, TARGET, "opened for writing");
}

/// Regression: the database was put back to an earlier state, as by a snapshot of its file system,
/// and then used the same file numbers again: a file of the first backup was taken for the new file
/// with its number.
#[test]
fn a_backup_with_other_files_under_the_same_numbers_is_refused_and_stays() {
    let (mem, db) = database();
    db.flush().unwrap();
    drop(db);
    let twin = Path::new("/twin");
    mem.create_dir_all(twin).unwrap();
    for (path, bytes) in contents(&mem, DIR) {
        let to = twin.join(path.file_name().unwrap());
        mem.create(&to).unwrap().append(&bytes).unwrap();
    }
    let written = |dir: &Path, round: u8| {
        let db = Db::open(dir, options(&mem)).unwrap();
        put_all(&users(&db), round);
        db.flush().unwrap();
        db
    };
    let (db, twin) = (written(Path::new(DIR), 8), written(twin, 9));
    db.backup(TARGET).unwrap();
    let before = contents(&mem, TARGET);
    one_table::refused(twin.backup(TARGET), &["is another file"]);
    assert!(contents(&mem, TARGET) == before);
}

/// Regression: the error advised `ebb repair`, which refuses such a directory.
#[test]
fn the_error_about_an_interrupted_backup_names_what_helps() {
    let (mem, db) = database();
    let _under_way = db.start_backup(TARGET).unwrap();
    // The disk as the end of the process would leave it.
    let mem = mem.fork();
    for refused in [
        Db::open(TARGET, options(&mem)).map(drop),
        Db::open_read_only(TARGET, options(&mem)).map(drop),
        verify(TARGET, &options(&mem), &mut |_| ()).map(drop),
        repair(TARGET, "/repaired", &options(&mem), &mut |_| ()).map(drop),
    ] {
        let error = refused.unwrap_err();
        let is_incomplete =
            matches!(&error, Error::Incomplete { path } if path == Path::new(TARGET));
        assert!(is_incomplete, "{error:?}");
        let text = error.to_string();
        assert!(text.contains("remove it"), "{text}");
        assert!(!text.contains("ebb repair"), "{text}");
    }
    for path in mem.list(Path::new(TARGET)).unwrap() {
        mem.remove(&path).unwrap();
    }
    Db::open(DIR, options(&mem))
        .unwrap()
        .backup(TARGET)
        .unwrap();
    drop(Db::open(TARGET, options(&mem)).unwrap());
}

/// Regression: the segments of an interrupted backup stand behind the log of the older backup, and
/// were read as its continuation when the older backup was opened.
#[test]
fn the_log_of_an_older_backup_ends_where_it_ended_whatever_a_later_one_left() {
    let (mem, db) = database();
    db.backup(TARGET).unwrap();
    let segments = |mem: &MemDisk| {
        let mut paths = mem.list(Path::new(TARGET)).unwrap();
        paths.retain(|path| path.to_string_lossy().ends_with(".log"));
        paths.sort();
        paths
    };
    let older = segments(&mem);
    let last = older.last().unwrap().to_string_lossy().into_owned();
    let number: u64 = last[last.len() - 10..last.len() - 4].parse().unwrap();
    let left = Path::new(TARGET).join(format!("wal-{:06}.log", number + 1));
    mem.create(&left)
        .unwrap()
        .append(b"a part of a segment")
        .unwrap();
    let verified = verify(TARGET, &options(&mem), &mut |_| ()).unwrap();
    assert_eq!(verified.findings, []);
    // Another backup removes it even if it is not completed.
    drop(db.start_backup(TARGET).unwrap());
    assert_eq!(segments(&mem), older);
    mem.create(&left)
        .unwrap()
        .append(b"a part of a segment")
        .unwrap();
    let copy = Db::open(TARGET, options(&mem)).unwrap();
    copy.verify().unwrap();
    assert!(!segments(&mem).contains(&left));
    put_all(&users(&copy), 6);
    drop(copy);
    let copy = Db::open(TARGET, options(&mem)).unwrap();
    assert_eq!(users(&copy).get(&[7]).unwrap().unwrap(), [6; 1000][..]);
}

/// A backup syncs a copied file only after it has copied the next one, so that the disk writes meanwhile. So
/// the failure of a sync is found only then.
#[test]
fn a_backup_copies_the_next_file_before_it_waits_for_the_disk() {
    let (mem, db) = database();
    move_target_away(&mem, &db);
    let tables = files(&mem, ".sst").into_iter();
    let largest = tables.map(|path| mem.file_len(path).unwrap()).max();
    let mut backup = db.start_backup(TARGET).unwrap();
    mem.fail_next(FaultOp::Sync, 1, ErrorKind::Other);
    let mut bytes_done = 0;
    let copied = backup.copy(&mut |now| {
        bytes_done = now.bytes_done;
        ControlFlow::Continue(())
    });
    let error = copied.unwrap_err().to_string();
    assert!(error.contains("sync") && error.contains(TARGET), "{error}");
    assert!(Some(bytes_done) > largest, "{bytes_done} of {largest:?}");
    // A disk reports lost bytes once. The next sync would seem to succeed.
    assert!(backup.copy(&mut go_on).is_err());
    drop(backup);
    let left = mem.list(Path::new(TARGET)).unwrap();
    assert_eq!(left, [Path::new(TARGET).join("LOCK")]);
}

/// Opens the database on a disk without links. Also returns a counter of the bytes that are read
/// from the files for which `is_counted` returns true.
fn counting_reads(mem: &MemDisk, is_counted: fn(&Path) -> bool) -> (Db, Arc<AtomicU64>) {
    let read_bytes = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read_bytes);
    let disk = HookedDisk::new(mem, move |call, path| {
        if let Call::Read { from, to } = call
            && is_counted(path)
        {
            count.fetch_add(to - from, Ordering::Relaxed);
        }
        Ok(())
    });
    let options = on_disk(disk, options(mem));
    (Db::open(DIR, options).unwrap(), read_bytes)
}

/// Regression: each copy was read again for its check. That took a quarter of the CPU time of a
/// backup, and a server under load has little CPU time for a backup.
#[test]
fn an_sstable_is_copied_and_checked_by_reading_it_once() {
    let (mem, _) = database();
    let (db, read_bytes) = counting_reads(&mem, is_sstable);
    let mut backup = db.start_backup(TARGET).unwrap();
    let before = read_bytes.load(Ordering::Relaxed);
    assert!(backup.copy(&mut go_on).unwrap().is_continue());
    let read_bytes = read_bytes.load(Ordering::Relaxed) - before;
    let info = backup.finish(&mut go_on).unwrap().unwrap();
    assert_eq!((info.linked_bytes, info.damaged), (0, vec![]));
    let mut bytes = 0;
    for sstable in files(&mem, ".sst") {
        let copy = Path::new(TARGET).join(sstable.file_name().unwrap());
        let whole = mem.read_all(&sstable).unwrap();
        assert!(mem.read_all(&copy).unwrap() == whole, "{}", copy.display());
        bytes += whole.len() as u64;
    }
    // Index and filters are read for the check and for the copy, and so is a block at the end of a
    // piece.
    let usual = bytes..bytes * 3 / 2;
    assert!(usual.contains(&read_bytes), "{read_bytes} of {bytes}");
}

/// The check of a copy ends at the first damage. The rest of the file is copied nevertheless.
#[test]
fn the_copy_of_a_damaged_sstable_has_all_of_its_bytes() {
    type Damage = fn(&MemDisk, &Path, u64) -> std::io::Result<()>;
    let damages: [Damage; 6] = [
        |mem, path, _| mem.flip_bit(path, 0, 3),
        |mem, path, len| mem.flip_bit(path, len / 2, 3),
        |mem, path, len| mem.flip_bit(path, len - 1, 3),
        |mem, path, len| mem.cut(path, len - 1),
        |mem, path, len| mem.cut(path, len / 2),
        |mem, path, _| mem.cut(path, 0),
    ];
    for (case, damage) in damages.into_iter().enumerate() {
        let (mem, db) = database();
        move_target_away(&mem, &db);
        let damaged = files(&mem, ".sst").swap_remove(1);
        damage(&mem, &damaged, mem.file_len(&damaged).unwrap()).unwrap();
        let info = db.backup(TARGET).unwrap();
        assert_eq!(info.linked_bytes, 0, "case {case}");
        let copy = Path::new(TARGET).join(damaged.file_name().unwrap());
        let listed: Vec<_> = info.damaged.iter().map(|file| &file.path).collect();
        assert_eq!(listed, [&copy], "case {case}");
        let [bytes, copied] = [&damaged, &copy].map(|path| mem.read_all(path).unwrap());
        assert!(bytes == copied, "case {case}");
    }
}

/// The blocks of a file are copied while they are checked, so a failed write of the copy looks like a failed
/// read to the check. The check then reads a block again, which must not be written to the copy again.
#[test]
fn a_backup_that_cannot_write_a_copy_fails_and_leaves_nothing() {
    for nth in 1..8 {
        let (mem, db) = database();
        move_target_away(&mem, &db);
        let mut backup = db.start_backup(TARGET).unwrap();
        mem.fail_next(FaultOp::Append, nth, ErrorKind::StorageFull);
        let error = backup.copy(&mut go_on).unwrap_err();
        let is_full = matches!(&error, Error::DiskFull { path } if path.starts_with(TARGET));
        assert!(is_full, "{error}");
        drop(backup);
        let left = mem.list(Path::new(TARGET)).unwrap();
        assert_eq!(left, [Path::new(TARGET).join("LOCK")]);
    }
}

/// Regression: the whole log was read again for its check at the end of the backup, where a server
/// does not lower the priority of the thread. Requests waited for the processor meanwhile.
#[test]
fn the_log_is_checked_while_it_is_copied_and_only_its_last_segment_at_the_end() {
    let (mem, _) = database();
    let is_segment: fn(&Path) -> bool = |path| path.extension() == Some("log".as_ref());
    let (db, read_bytes) = counting_reads(&mem, is_segment);
    let read = || read_bytes.load(Ordering::Relaxed);
    let table = users(&db);
    table.put(b"key", b"value").unwrap();
    let mut backup = db.start_backup(TARGET).unwrap();
    let before = read();
    assert!(backup.copy(&mut go_on).unwrap().is_continue());
    let copied = read();
    backup.finish(&mut go_on).unwrap().unwrap();
    let finished = read();
    let log = contents(&mem, TARGET).into_iter();
    let log = log.filter(|(path, _)| is_segment(path));
    // The header of a segment is read first, because its number may change.
    let header_bytes = 32;
    let mut bytes: Vec<u64> = log
        .map(|(_, bytes)| header_bytes + bytes.len() as u64)
        .collect();
    assert_eq!(Some(finished - copied), bytes.pop());
    assert!(bytes.len() > 1);
    assert_eq!(copied - before, bytes.iter().sum::<u64>());
}

/// A server calls `Backup::copy` with a low priority, and `Backup::finish`, which copies the last
/// segment of the log, without. The database appends to that segment, and may wait for a reader of
/// the same file.
#[test]
fn only_the_last_segment_of_the_log_is_copied_at_the_end() {
    let (mem, db) = database();
    let segments = || {
        let listed = mem.list(Path::new(TARGET)).unwrap().into_iter();
        let is_log = |path: &PathBuf| path.extension().is_some_and(|it| it == "log");
        listed.filter(is_log).count()
    };
    let mut backup = db.start_backup(TARGET).unwrap();
    assert!(backup.copy(&mut go_on).unwrap().is_continue());
    let copied = segments();
    assert!(copied > 1);
    backup.finish(&mut go_on).unwrap().unwrap();
    assert_eq!(segments(), copied + 1);
}

#[test]
fn a_damaged_file_of_an_older_backup_stays_until_its_replacement_is_durable() {
    let (mem, db) = database();
    // After this flush the manifest names all files.
    db.flush().unwrap();
    move_target_away(&mem, &db);
    db.backup(TARGET).unwrap();
    mem.clear_faults();
    let is_sstable = |path: &PathBuf| path.extension().is_some_and(|it| it == "sst");
    let listed = mem.list(Path::new(TARGET)).unwrap();
    let damaged = listed.into_iter().find(is_sstable).unwrap();
    mem.flip_bit(&damaged, 100, 3).unwrap();
    let older = contents(&mem, TARGET);
    move_target_away(&mem, &db);
    let mut backup = db.start_backup(TARGET).unwrap();
    mem.fail_next(FaultOp::Sync, 1, ErrorKind::Other);
    let error = backup.copy(&mut go_on).unwrap_err().to_string();
    assert!(error.contains("sync"), "{error}");
    drop(backup);
    assert!(contents(&mem, TARGET) == older);
}

#[test]
fn a_backup_ends_before_the_disk_of_the_database_is_full() {
    let (mem, db) = database();
    move_target_away(&mem, &db);
    let tables = files(&mem, ".sst").into_iter();
    let bytes: u64 = tables.map(|path| mem.file_len(path).unwrap()).sum();
    let used = mem.used_bytes();
    // The copy would fit.
    mem.set_capacity_bytes(Some(used + bytes * 3 / 2));
    let error = db.backup(TARGET).unwrap_err();
    let is_full = matches!(&error, Error::DiskFull { path } if path == Path::new(DIR));
    assert!(is_full, "{error}");
    assert_eq!(mem.used_bytes(), used);
    assert_no_links(&mem);
}

#[test]
fn a_backup_inside_the_directory_of_the_database_is_not_taken_for_links() {
    let (mem, db) = database();
    let inside = Path::new(DIR).join(".backup-1");
    db.backup(&inside).unwrap();
    db.backup(TARGET).unwrap();
    drop(db);
    drop(Db::open(DIR, options(&mem)).unwrap());
    Db::open(&inside, options(&mem)).unwrap().verify().unwrap();
}
