//! A reader of a table with a damaged file fails only if it needs what is damaged: reads by key and
//! scans, of the table, of its snapshots and of its pins.

use std::sync::Arc;

use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, DetachedOptions, DetachedTable, Error, Range, SortedWriter};

use super::{
    Answers, KEYS, database, files_of_users, key, one_run, options, paths, quarantine, tables,
};

#[test]
fn only_readers_that_come_to_the_damage_fail() {
    let mem = MemDisk::new();
    let (db, users) = one_run(&mem, 40);
    drop((users, db));
    let all = files(&mem, ".sst");
    let path = &all[all.len() / 2];
    mem.flip_bit(path, 60, 1).unwrap();

    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    let is_bad = |number: &u8| users.get(&key(*number)).is_err();
    let bad: Vec<u8> = (0..KEYS).filter(is_bad).collect();
    let (first, last) = (bad[0], bad[bad.len() - 1]);
    assert!(first > 0 && last < KEYS - 1 && bad.len() < 20, "{bad:?}");
    assert!(bad.iter().copied().eq(first..=last), "{bad:?}");
    let read = |range: Range| {
        let entries: Vec<_> = range.collect();
        let right = entries.iter().filter(|entry| entry.is_ok()).count();
        (right, entries.len() - right)
    };
    let (before, behind) = (usize::from(first), usize::from(KEYS - 1 - last));
    assert_eq!(read(users.range(key(0)..=key(first - 1))), (before, 0));
    assert_eq!(read(users.range(key(last + 1)..)), (behind, 0));
    assert_eq!(read(users.range::<&[u8], _>(..)), (before, 1));
    assert_eq!(read(users.range(key(first)..)), (0, 1));
    let downwards = users.range(key(last + 1)..).rev();
    assert_eq!(downwards.filter(Result::is_ok).count(), behind);
    let downwards: Vec<_> = users.range::<&[u8], _>(..).rev().collect();
    assert_eq!(downwards.len(), behind + 1);
    assert!(downwards[behind].is_err());

    // What is newer decides.
    users.put(&key(first), b"new").unwrap();
    users.delete(&key(last)).unwrap();
    assert_eq!(users.get(&key(first)).unwrap().unwrap(), "new");
    assert_eq!(users.get(&key(last)).unwrap(), None);
    users.merge(&key(first + 1), b"operand").unwrap();
    users.get(&key(first + 1)).unwrap_err();
    users.delete_range(key(first)..key(last + 1)).unwrap();
    users.merge(&key(first + 1), b"operand").unwrap();
    assert_eq!(users.get(&key(first + 1)).unwrap().unwrap(), "operand");
}

/// A scan does not read a run if range tombstones that the scan sees delete all keys of the run in
/// the scan's range. So the scan does not reach damage in that run. A scan of a snapshot from
/// before the deletion reads the run, and fails.
#[test]
fn a_range_tombstone_over_damage_lets_scans_succeed_that_see_the_tombstone() {
    for is_whole in [true, false] {
        let _place = FailedAt(format!("whole: {is_whole}"));
        let mem = MemDisk::new();
        let (db, users) = one_run(&mem, 40);
        let before = content(users.range::<&[u8], _>(..)).unwrap();
        let keyspace = db.existing_keyspace("app").unwrap();
        keyspace.create_snapshot("s").unwrap();
        drop((users, keyspace, db));
        let all = files(&mem, ".sst");
        let damaged = std::slice::from_ref(&all[all.len() / 2]);
        damage_file(&mem, &damaged[0], is_whole);

        let db = Db::open(DIR, options(&mem)).unwrap();
        let [users, _] = tables(&db);
        let keyspace = db.existing_keyspace("app").unwrap();
        let then = keyspace.snapshot("s").unwrap().table("users").unwrap();
        let is_bad = |number: &u8| users.get(&key(*number)).is_err();
        let bad: Vec<u8> = (0..KEYS).filter(is_bad).collect();
        let bad_keys = || key(bad[0])..key(bad[bad.len() - 1] + 1);
        content(users.range(bad_keys())).unwrap_err();
        users.delete_range(bad_keys()).unwrap();
        assert_eq!(content(users.range(bad_keys())).unwrap(), Content::new());
        content(then.range(bad_keys())).unwrap_err();

        users.delete_range(key(0)..key(KEYS)).unwrap();
        // The tombstone is in a memtable, then in a run.
        for _ in 0..2 {
            let mut now = Answers::default();
            let (get, range) = (|key: &[u8]| users.get(key), |keys| users.range(keys));
            now.table(get, range, &Content::new(), damaged);
            assert_eq!(now.damaged, 0, "{now:?}");
            let mut old = Answers::default();
            let (get, range) = (|key: &[u8]| then.get(key), |keys| then.scan(keys));
            old.table(get, range, &before, damaged);
            assert!(old.damaged > 0 && old.right > 0, "{old:?}");
            db.flush().unwrap();
        }
    }
}

/// Regression: an ingested file was damaged before the manifest named it, while only its record in
/// the log did. Then the database did not open.
#[test]
fn a_damaged_file_that_only_the_log_names_is_in_quarantine_too() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    for number in 0..KEYS {
        users.put(&key(number), b"older").unwrap();
    }
    db.flush().unwrap();
    let writer = writer_options(&mem);
    let mut writer = SortedWriter::create("/out", "ingested", writer).unwrap();
    for number in 20..30 {
        writer.put(&key(number), b"ingested").unwrap();
    }
    let written = writer.finish().unwrap();
    // The manifest names an ingested run once the run and all older memtables are flushed. Under
    // `Maintenance::Manual` nothing is flushed here, so until then only the log names the run.
    users.put(&key(0), b"newer").unwrap();
    users.ingest(&written).unwrap();
    users.put(&key(25), b"newest").unwrap();
    db.backup("/linked").unwrap();
    // A backup consists of links to the files, which share the damage.
    copy_dir(&mem, "/linked", "/copied");
    drop((users, db));
    let path = files(&mem, ".sst").pop().unwrap();
    damage_file(&mem, &path, true);

    let fork = mem.fork();
    let db = Db::open(DIR, options(&fork)).unwrap();
    let report = db.restore("/copied").unwrap();
    assert_eq!((report.restored.len(), report.left), (1, vec![]));
    let value = tables(&db)[0].get(&key(21)).unwrap();
    assert_eq!(value.unwrap(), "ingested");
    drop(db);

    // The first opening finds the run in the log, and the flush below records it in the manifest.
    // The later ones find it there, the last one after a call of `compact` in between.
    for opening in 0..3 {
        let db = Db::open(DIR, options(&mem)).unwrap();
        let [users, _] = tables(&db);
        for number in 0..KEYS {
            match (number, users.get(&key(number))) {
                (0, value) => assert_eq!(value.unwrap().unwrap(), "newer"),
                (25, value) => assert_eq!(value.unwrap().unwrap(), "newest"),
                (20..30, value) => {
                    let error = value.unwrap_err();
                    assert!(matches!(&error, Error::Corruption { path: p, .. } if *p == path));
                }
                (_, value) => assert_eq!(value.unwrap().unwrap(), "older"),
            }
        }
        assert!(users.range(key(10)..key(25)).any(|entry| entry.is_err()));
        assert_eq!(users.range(key(30)..).filter(Result::is_ok).count(), 30);
        let known = quarantine(&db);
        assert_eq!(
            paths(&known),
            std::slice::from_ref(&path),
            "opening {opening}"
        );
        assert!(
            known[0].is_whole && known[0].from_key == key(20),
            "{known:?}"
        );
        db.flush().unwrap();
        db.compact().unwrap();
    }
}

/// Other processes read a pinned table through a [`DetachedTable`]. Its reads, too, return right
/// values or report the damage.
#[test]
fn a_pinned_table_with_a_damaged_file_is_right_or_damaged() {
    let (mem, model) = database(5);
    let files = files_of_users(&mem.fork());
    for path in &files {
        let fork = mem.fork();
        damage_file(&fork, path, true);
        let db = Db::open(DIR, options(&fork)).unwrap();
        let mut answers = Answers::default();
        for (name, content) in &model.snapshots {
            let snapshot = db.existing_keyspace("app").unwrap().snapshot(name).unwrap();
            let pin = snapshot.table("users").unwrap().pin().unwrap();
            let options = DetachedOptions {
                disk: Arc::new(fork.clone()),
                ..DetachedOptions::default()
            };
            let options = DetachedOptions {
                merge_operators: ebb_storage::MergeOperators::default(),
                ..options
            };
            let table = DetachedTable::open(pin.description(), options).unwrap();
            let (get, range) = (|key: &[u8]| table.get(key), |keys| table.scan(keys));
            answers.table(get, range, content, std::slice::from_ref(path));
        }
        assert!(answers.right > 0, "{answers:?}");
    }
}
