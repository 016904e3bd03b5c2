//! Calls that fail, a process that dies, power that goes, a log that was not synced: a read gives
//! an error and no wrong value, writing ends when the state of the disk is unknown, and
//! acknowledged writes are there after it. The loss of power at every call is tested in the crate
//! `ebb-tests`.

use std::collections::BTreeSet;
use std::io::ErrorKind::Other;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::hooked_disk::{Call, HookedDisk, is_sstable};
use crate::common::one_table::{open, open_at, small, users};
use crate::common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    Db, Durability, Error, FileSystem, LocalDisk, LogStore, Maintenance, MaintenanceProgress,
    Options, TableOptions, repair, verify,
};
use rand::RngExt;

#[test]
fn after_an_fsync_that_failed_nothing_is_written_and_what_was_acknowledged_is_recovered() {
    let mem = MemDisk::new();
    let (db, table) = small(&mem, Durability::Sync);
    table.put(b"a", b"1").unwrap();
    mem.fail_next(FaultOp::Sync, 1, Other);
    assert!(matches!(table.put(b"b", b"2"), Err(Error::ReadOnly { .. })));
    // The disk works again, but which writes it dropped is unknown.
    for _ in 0..2 {
        assert!(matches!(table.put(b"a", b"3"), Err(Error::ReadOnly { .. })));
        assert!(matches!(table.delete(b"a"), Err(Error::ReadOnly { .. })));
        let keyspace = db.existing_keyspace("app").unwrap();
        let refused = keyspace.create_snapshot("s");
        assert!(matches!(refused, Err(Error::ReadOnly { .. })));
        assert_eq!(keyspace.snapshots(), []);
        assert!(matches!(db.sync(), Err(Error::ReadOnly { .. })));
        assert!(matches!(db.flush(), Err(Error::ReadOnly { .. })));
        assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
        assert_eq!(table.get(b"b").unwrap(), None);
    }
    assert!(db.stats().read_only_cause.is_some());
    drop((db, table));
    mem.restart(1);

    let (_db, table) = small(&mem, Durability::Sync);
    assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
    table.put(b"a", b"4").unwrap();
    assert_eq!(table.get(b"a").unwrap().unwrap(), "4");
}

/// Regression: after the fsync of a commit had failed, reopening still found the commit in the page
/// cache, and kept it. But it was never written, as the system took the page for clean. Later
/// commits, acknowledged after the reopening, went to a segment of their own, so the next power
/// loss left a hole before them, and the database did not open any more. An edit of the manifest
/// got lost in the same way. Before that, the reopening had found the edit, and had removed the
/// files that the edit replaces: after the power loss the manifest named files that were gone.
#[test]
fn what_a_reopening_found_after_a_failed_fsync_is_there_for_good() {
    for seed in 0..20 {
        let mem = MemDisk::new();
        let (db, table) = small(&mem, Durability::Sync);
        table.put(b"a", b"1").unwrap();
        mem.fail_next(FaultOp::Sync, 1, Other);
        table.put(b"b", &[2; 700]).unwrap_err();
        drop((db, table));
        let (db, table) = small(&mem, Durability::Sync);
        let found = table.get(b"b").unwrap();
        table.put(b"c", b"3").unwrap();
        // The first of these begins a manifest; the others append edits to it.
        for value in [b"4", b"5", b"6", b"7"] {
            table.put(b"d", value).unwrap();
            db.flush().unwrap();
        }
        // The fsync of the merge's output, and that of the edit.
        mem.fail_next(FaultOp::Sync, 2, Other);
        db.compact().unwrap_err();
        drop((db, table));
        // Removes the merged files, if it found the edit.
        let (db, table) = small(&mem, Durability::Sync);
        lose_power(&mem, (db, table), seed);

        let (_db, table) = small(&mem, Durability::Sync);
        assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
        assert_eq!(table.get(b"b").unwrap(), found, "seed {seed}");
        assert_eq!(table.get(b"c").unwrap().unwrap(), "3");
        assert_eq!(table.get(b"d").unwrap().unwrap(), "7");
    }
}

/// Regression: when a merge could not sync the log, the file that it had written stayed until the
/// next opening of the database.
#[test]
fn a_merge_that_cannot_sync_the_log_leaves_no_file() {
    let mem = MemDisk::new();
    let (db, table) = small(&mem, Durability::Os);
    for value in [b"1", b"2", b"3", b"4"] {
        table.put(b"a", value).unwrap();
        db.flush().unwrap();
    }
    // The log has a write that is not synced yet.
    table.put(b"b", b"5").unwrap();
    let before = files(&mem, ".sst");
    // The first sync is that of the merge's output, the second one that of the log.
    mem.fail_next(FaultOp::Sync, 2, Other);
    assert!(matches!(db.compact(), Err(Error::ReadOnly { .. })));
    assert_eq!(mem.armed_faults(), 0);
    assert_eq!(files(&mem, ".sst"), before);
}

/// Without an fsync an acknowledged write may be lost in a crash of the machine, but never in one
/// of the process: the next process finds the disk as it was at that moment.
#[test]
fn what_was_acknowledged_survives_a_crash_of_the_process() {
    let mem = MemDisk::new();
    let (db, table) = small(&mem, Durability::Os);
    let keyspace = db.existing_keyspace("app").unwrap();
    for i in 0..40_u8 {
        table.put(&[i % 7], &[i]).unwrap();
        keyspace.create_snapshot(&format!("s{i}")).unwrap();
        if i % 3 == 0 {
            keyspace.delete_snapshot(&format!("s{i}")).unwrap();
        }
        if i % 11 == 0 {
            db.flush().unwrap();
        }
        let left = copy(&mem);
        let (found, _table) = small(&left, Durability::Os);
        let (found, expected) = (everything(&found), everything(&db));
        assert_eq!(found.unwrap(), expected.unwrap());
    }
}

/// A power loss may take any sectors of a log that was not synced, also before others that
/// survive. That is a torn tail: no record behind the hole may claim that earlier ones were
/// durable.
#[test]
fn a_hole_in_what_was_never_synced_is_a_torn_tail_and_no_damage() {
    const WRITES: u8 = 40;
    let mut found = BTreeSet::new();
    for seed in 0..20 {
        let mem = MemDisk::new();
        let options = Options {
            durability: Durability::Os,
            memtable_bytes: 1 << 20,
            ..manual(&mem)
        };
        let (db, keyspace, table) = open(options.clone(), TableOptions::default());
        for i in 0..WRITES {
            table.put(&[i], &[i; 300]).unwrap();
        }
        lose_power(&mem, (db, keyspace, table), seed);
        let db = Db::open(DIR, options).unwrap();
        let table = users(&db);
        let rows = content(table.range::<&[u8], _>(..)).unwrap();
        let prefix = (0..rows.len() as u8).map(|i| (vec![i], vec![i; 300]));
        assert!(rows.clone().into_iter().eq(prefix), "seed {seed}");
        found.insert(rows.len());
    }
    assert!(found.len() > 2, "the log was torn at {found:?} only");
}

/// Regression: a crash after a file was made and before the manifest named it left an orphan. The
/// next opening gave the orphan's number to another file; a process that had pinned the table
/// before the crash, and opens its files by number, then read that file.
#[test]
fn no_number_of_a_file_is_used_twice_whatever_the_power_does() {
    let test = "no_number_of_a_file_is_used_twice_whatever_the_power_does";
    for_seeds(test, 6, |seed| {
        let mut rng = rng(seed);
        let (mem, made) = (MemDisk::new(), Arc::new(Mutex::new(BTreeSet::new())));
        let names = made.clone();
        let disk = HookedDisk::new(&mem, move |call, path| {
            if call == Call::Create && is_sstable(path) {
                let is_new = names.lock().unwrap().insert(path.to_path_buf());
                assert!(is_new, "{} is made twice", path.display());
            }
            Ok(())
        });
        for round in 0..60 {
            mem.crash_at(rng.random_range(1..400));
            let options = Options {
                disk: Arc::new(disk.clone()),
                memtable_bytes: 1 << 10,
                ..manual(&mem)
            };
            let use_it = || -> ebb_storage::Result<()> {
                let db = Db::open(DIR, options)?;
                let keyspace = db.keyspace("app")?;
                for at in 0..8_u8 {
                    let name = format!("t{}", at % 2);
                    let table = keyspace.table(&name, Default::default())?;
                    table.put(&[round, at], &[at; 300])?;
                    db.flush()?;
                    if at == 5 {
                        keyspace.drop_table(&name)?;
                    }
                }
                db.compact()
            };
            let _ended_or_lost_power = use_it();
            mem.restart(seed + u64::from(round));
        }
        assert!(made.lock().unwrap().len() > 50, "few files were made");
    });
}

/// Regression: the manifest takes no edit after a failed one, so nothing could be flushed any more;
/// but writes were still taken, into memtables that only grew.
#[test]
fn after_an_edit_of_the_manifest_that_failed_no_write_is_taken() {
    let mem = MemDisk::new();
    let (db, table) = small(&mem, Durability::Os);
    table.put(b"a", b"1").unwrap();
    mem.fail_next(FaultOp::Sync, 1, Other);
    let keyspace = db.existing_keyspace("app").unwrap();
    let failed = keyspace.table("mails", TableOptions::default());
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    assert!(matches!(table.put(b"a", b"2"), Err(Error::ReadOnly { .. })));
    assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
    drop((db, keyspace, table));
    let (_db, table) = small(&mem, Durability::Os);
    assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
    table.put(b"a", b"2").unwrap();
}

/// Regression: a sync of the directory reports lost names once. If a flush got the error, others still relied on
/// their names: a merge removed its inputs, and the log acknowledged commits in a new segment.
#[test]
fn after_a_sync_of_the_directory_that_failed_nothing_relies_on_a_new_name() {
    let mem = MemDisk::new();
    let (db, table) = small(&mem, Durability::Sync);
    table.put(b"a", b"1").unwrap();
    mem.fail_next(FaultOp::SyncDir, 1, Other);
    assert!(matches!(db.flush(), Err(Error::Io { .. })));
    assert_eq!(mem.armed_faults(), 0);
    let again = db.flush();
    assert!(matches!(again, Err(Error::Io { .. })), "{again:?}");
    // The segment of the log has a name already. Writes end with the next one.
    let kept = (0..10_000_u32)
        .take_while(|i| match table.put(&i.to_be_bytes(), &[7; 1000]) {
            Ok(()) => true,
            Err(error) => {
                assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
                false
            }
        })
        .count();
    assert!(kept < 10_000);
    lose_power(&mem, (db, table), 1);
    let (_db, table) = small(&mem, Durability::Sync);
    let found = content(table.range::<&[u8], _>(..)).unwrap();
    assert_eq!(found.len(), kept + 1);
    table.put(b"a", b"2").unwrap();
}

#[test]
fn a_read_that_fails_is_an_error_and_the_next_one_may_succeed() {
    let mem = MemDisk::new();
    let options = Options {
        cache_bytes: 0,
        ..manual(&mem)
    };
    let (db, _, table) = open(options, TableOptions::default());
    for i in 0..500 {
        let key = format!("key{i:03}");
        table.put(key.as_bytes(), &[7; 50]).unwrap();
    }
    db.flush().unwrap();

    mem.fail_next(FaultOp::Read, 1, Other);
    assert!(matches!(table.get(b"key123"), Err(Error::Io { .. })));
    assert_eq!(table.get(b"key123").unwrap().unwrap(), [7; 50][..]);

    for nth in 1..4 {
        mem.fail_next(FaultOp::Read, nth, Other);
        let mut seen = 0;
        let mut range = table.range::<&[u8], _>(..);
        let error = loop {
            match range.next().unwrap() {
                Ok((key, _)) => assert_eq!(key, format!("key{seen:03}")),
                Err(e) => break e,
            }
            seen += 1;
        };
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
    assert_eq!(table.range::<&[u8], _>(..).count(), 500);
    // A read that fails does not stop writes.
    table.put(b"key123", b"new").unwrap();
}

/// Regression: a server was stopped after its directory had been moved away, and a backup put in
/// its place. The rows in memory went into files of the backup's directory, while the manifest that
/// named them was in the moved one. The next opening of the backup removed these files as orphans.
#[test]
fn nothing_goes_into_another_directory_in_the_place_of_the_databases() {
    let parent = tempfile::tempdir().unwrap();
    let [dir, moved, backup] = ["db", "moved", "backup"].map(|name| parent.path().join(name));
    let disk = LocalDisk::default();
    let names = |dir: &Path| BTreeSet::from_iter(disk.list(dir).unwrap());
    for is_replaced in [false, true] {
        let options = Options {
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let (db, keyspace, table) = open_at(&dir, options.clone(), TableOptions::default());
        table.put(b"before", b"1").unwrap();
        db.flush().unwrap();
        db.backup(&backup).unwrap();
        table.put(b"after", b"2").unwrap();

        disk.rename(&dir, &moved).unwrap();
        if is_replaced {
            disk.rename(&backup, &dir).unwrap();
        }
        let found = is_replaced.then(|| names(&dir));
        let error = db.flush().unwrap_err().to_string();
        assert!(error.contains("moved or replaced"), "{error}");
        drop((table, keyspace, db));
        assert_eq!(disk.exists(&dir).unwrap(), is_replaced);
        assert_eq!(is_replaced.then(|| names(&dir)), found);
        if is_replaced {
            disk.rename(&dir, &backup).unwrap();
        }
        disk.rename(&moved, &dir).unwrap();
        let db = Db::open(&dir, options).unwrap();
        let table = users(&db);
        assert_eq!(table.get(b"after").unwrap().unwrap(), "2");
    }
}

/// Regression: verify reported the files of a directory that was moved meanwhile as missing, and
/// repair made a database without their rows.
#[test]
fn verify_and_repair_fail_if_the_directory_is_moved_meanwhile() {
    let parent = tempfile::tempdir().unwrap();
    let [dir, moved, repaired] = ["db", "moved", "repaired"].map(|name| parent.path().join(name));
    let options = Options {
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    let (db, keyspace, table) = open_at(&dir, options.clone(), TableOptions::default());
    for value in [b"1", b"2"] {
        table.put(b"k", value).unwrap();
        db.flush().unwrap();
    }
    drop((table, keyspace, db));
    let disk = LocalDisk::default();
    for is_repair in [false, true] {
        let mut is_moved = false;
        let mut progress = |_: MaintenanceProgress| {
            if !is_moved {
                disk.rename(&dir, &moved).unwrap();
            }
            is_moved = true;
        };
        let outcome = if is_repair {
            repair(&dir, &repaired, &options, &mut progress).map(drop)
        } else {
            verify(&dir, &options, &mut progress).map(drop)
        };
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("moved or replaced"), "{error}");
        disk.rename(&moved, &dir).unwrap();
    }
    assert!(!disk.exists(&repaired).unwrap());
}

/// Regression: once a segment of the log could not be read, the progress lost the pieces of the segment that
/// had been read before.
#[test]
fn the_progress_of_a_verification_never_falls_if_the_log_cannot_be_read() {
    let mem = MemDisk::new();
    let options = Options {
        memtable_bytes: 1 << 20,
        wal_segment_bytes: 1 << 10,
        ..manual(&mem)
    };
    let (db, keyspace, table) = open(options.clone(), TableOptions::default());
    table.put(b"a", &vec![7; 200 << 10]).unwrap();
    table.put(b"b", b"1").unwrap();
    drop((table, keyspace, db));
    let segments = files(&mem, ".log");
    let is_long = |path: &&PathBuf| mem.file_len(path).unwrap() > 200 << 10;
    let long = segments.iter().find(is_long).unwrap().clone();
    assert_ne!(segments.last(), Some(&long));
    let fails = long.clone();
    let disk = HookedDisk::new(&mem, move |call, path| match call {
        Call::Read { from: 1.., .. } if path == fails => Err(Other.into()),
        _ => Ok(()),
    });
    let options = on_disk(disk, options);
    let mut done = Vec::new();
    let report = verify(DIR, &options, &mut |now| done.push(now.bytes_done)).unwrap();
    let finding = only(&report.findings);
    assert_eq!(finding.path, long);
    assert!(done.is_sorted(), "{done:?}");
    assert_eq!(done.last(), Some(&report.bytes));
}

/// Regression: the opening and the repair waited without end for a writer of the pipe.
#[test]
fn a_pipe_in_the_place_of_a_file_is_named_by_the_opening_and_by_the_repair() {
    let parent = tempfile::tempdir().unwrap();
    let [dir, aside, repaired] = ["db", "aside", "repaired"].map(|name| parent.path().join(name));
    let (db, keyspace, table) = open_at(&dir, Options::default(), TableOptions::default());
    table.put(b"k", b"v").unwrap();
    drop((table, keyspace, db));
    let disk = LocalDisk::default();
    let mut files = disk.list(&dir).unwrap().into_iter();
    let log = files.find(|path| path.extension().is_some_and(|extension| extension == "log"));
    let (lock, log) = (dir.join("LOCK"), log.unwrap());
    let repair = || repair(&dir, &repaired, &Options::default(), &mut |_| ());
    for path in [&lock, &log] {
        disk.rename(path, &aside).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        let opened = Db::open(&dir, Options::default()).map(drop);
        let read = Db::open_read_only(&dir, Options::default()).map(drop);
        for refused in [opened, read] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("a named pipe has the place"), "{refused}");
            assert!(refused.contains(path.to_str().unwrap()), "{refused}");
        }
        match repair() {
            Ok(report) => assert_eq!(report.lost[0].path, log, "{report:?}"),
            Err(refused) => {
                let refused = refused.to_string();
                assert!(refused.contains(lock.to_str().unwrap()), "{refused}");
            }
        }
        disk.remove(path).unwrap();
        disk.rename(&aside, path).unwrap();
    }
}
