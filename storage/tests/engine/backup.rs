//! Backups: what they keep while they copy, what they check, and what they leave behind.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    Compression, Db, Error, FileSystem, MaintenanceProgress, Options, SsTableOptions, Table,
    TableOptions,
};

use crate::common::{DIR, content, files, manual};

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

/// A database with the same keys in four runs and in several segments of the log.
fn database(mem: &MemDisk) -> Db {
    let db = Db::open(DIR, options(mem)).unwrap();
    let sstable = SsTableOptions {
        compression: Compression::None,
        ..SsTableOptions::default()
    };
    let options = TableOptions {
        sstable,
        ..TableOptions::default()
    };
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", options).unwrap();
    for round in 0..4 {
        put_all(&table, round);
        db.flush().unwrap();
    }
    put_all(&table, 4);
    db
}

/// Makes the next backup copy: its links to the target fail, as on another file system. The links
/// to the folder beside the database come first.
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
        let mem = MemDisk::new();
        let db = database(&mem);
        if !is_linked {
            move_target_away(&mem, &db);
        }
        let before = [files(&mem, ".sst"), files(&mem, ".log")];
        let mut backup = db.start_backup(TARGET).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        for oldest in before.iter().map(|files| &files[0]) {
            assert!(!mem.exists(oldest).unwrap(), "{}", oldest.display());
        }
        assert!(backup.copy(&mut go_on).unwrap().is_continue());
        let info = backup.finish(&mut go_on).unwrap().unwrap();
        assert_eq!((info.linked_bytes > 0, info.damaged), (is_linked, vec![]));
        assert_no_links(&mem);

        let copy = Db::open(TARGET, manual(&mem)).unwrap();
        copy.verify().unwrap();
        let keyspace = copy.existing_keyspace("app").unwrap();
        let table = keyspace.existing_table("users").unwrap();
        let rows = content(table.range::<&[u8], _>(..)).unwrap();
        assert!(rows.len() == 200 && rows.values().all(|value| *value == [4; 1000]));
    }
}

#[test]
fn a_backup_with_a_damaged_block_is_complete_and_lists_the_file() {
    for is_linked in [true, false] {
        let mem = MemDisk::new();
        let db = database(&mem);
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
    let mem = MemDisk::new();
    drop(database(&mem));
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
    let [found] = &info.damaged[..] else {
        panic!("one file expected: {:?}", info.damaged);
    };
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

#[test]
fn a_backup_that_is_cancelled_at_any_block_leaves_nothing_behind() {
    let mem = MemDisk::new();
    let db = database(&mem);
    for steps_max in (0..).step_by(9) {
        let mut steps = 0;
        let mut step = |_: MaintenanceProgress| {
            steps += 1;
            if steps > steps_max {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let mut backup = db.start_backup(TARGET).unwrap();
        let info = if backup.copy(&mut step).unwrap().is_continue() {
            backup.finish(&mut step).unwrap()
        } else {
            drop(backup);
            None
        };
        assert_no_links(&mem);
        if info.is_some() {
            break;
        }
        let left = mem.list(Path::new(TARGET)).unwrap();
        assert_eq!(left, [Path::new(TARGET).join("LOCK")]);
    }
    Db::open(TARGET, manual(&mem)).unwrap().verify().unwrap();
}

#[test]
fn a_backup_ends_before_the_disk_of_the_database_is_full() {
    let mem = MemDisk::new();
    let db = database(&mem);
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
    let mem = MemDisk::new();
    let db = database(&mem);
    let inside = Path::new(DIR).join(".backup-1");
    db.backup(&inside).unwrap();
    db.backup(TARGET).unwrap();
    drop(db);
    drop(Db::open(DIR, options(&mem)).unwrap());
    Db::open(&inside, options(&mem)).unwrap().verify().unwrap();
}
