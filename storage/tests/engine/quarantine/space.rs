//! The space of a damaged file: how much it keeps, and when it goes.

use std::path::PathBuf;

use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, FileSystem, Options, Table, TableStats};

use super::{KEYS, back_up, key, paths, quarantine, tables};

/// For each case: whether the damaged file does not open at all, and whether a snapshot sees the file.
const CASES: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

fn options(mem: &MemDisk) -> Options {
    Options {
        file_bytes: 8 << 10,
        ..super::options(mem)
    }
}

/// Returns the value that all keys get in one round of writes.
fn value(round: u8) -> Vec<u8> {
    vec![round; 400]
}

fn put_all(users: &Table, round: u8) {
    for number in 0..KEYS {
        users.put(&key(number), &value(round)).unwrap();
    }
}

fn rows(round: u8) -> Content {
    (0..KEYS)
        .map(|number| (key(number), value(round)))
        .collect()
}

fn stats(db: &Db) -> TableStats {
    let mut tables = db.stats().tables.into_iter();
    tables.find(|table| table.name == "users").unwrap()
}

/// Makes a database and damages its newest file. With `is_whole`, the damage keeps the file from
/// opening; otherwise it is in the first data block only. With `has_snapshot`, a snapshot covers
/// the rows. Returns the disk, which has an undamaged backup in `/copied`, and the path of the
/// damaged file.
fn database(is_whole: bool, has_snapshot: bool) -> (MemDisk, PathBuf) {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    put_all(&users, 0);
    db.flush().unwrap();
    if has_snapshot {
        let keyspace = db.existing_keyspace("app").unwrap();
        keyspace.create_snapshot("s").unwrap();
    }
    back_up(&mem, &db);
    drop((users, db));
    let path = files(&mem, ".sst").pop().unwrap();
    damage_file(&mem, &path, is_whole);
    (mem, path)
}

/// A run whose damaged file does not open is dropped once range tombstones cover all of its keys.
/// The first tombstone of this test covers the keys of the other files of the run only, the second
/// one also those of the damaged file.
#[test]
fn a_run_goes_once_the_keys_of_its_damaged_file_are_covered_too() {
    let (mem, path) = database(true, false);
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    let from_key = quarantine(&db)[0].from_key.clone();
    assert!(from_key > key(0));
    users.delete_range(key(0)..from_key.clone()).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(paths(&quarantine(&db)), std::slice::from_ref(&path));
    assert_eq!(users.get(&key(0)).unwrap(), None);
    users.get(&from_key).unwrap_err();

    users.delete_range(key(0)..).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(quarantine(&db), []);
    assert!(!mem.exists(&path).unwrap());
    assert_eq!(users.range::<&[u8], _>(..).count(), 0);
}

#[test]
fn a_truncation_lets_a_damaged_file_go_unless_a_snapshot_has_it() {
    for (is_whole, has_snapshot) in CASES {
        let _place = FailedAt(format!("whole: {is_whole}, snapshot: {has_snapshot}"));
        let (mem, path) = database(is_whole, has_snapshot);
        let db = Db::open(DIR, options(&mem)).unwrap();
        let [users, _] = tables(&db);
        users.truncate().unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(mem.exists(&path).unwrap(), has_snapshot);
        if has_snapshot {
            let keyspace = db.existing_keyspace("app").unwrap();
            let then = keyspace.snapshot("s").unwrap().table("users").unwrap();
            let found = (0..KEYS).filter_map(|number| then.get(&key(number)).ok());
            let found: Vec<_> = found.map(Option::unwrap).collect();
            assert!(!found.is_empty() && found.len() < usize::from(KEYS));
            assert!(found.iter().all(|found| *found == value(0)[..]));
            drop(then);
            keyspace.delete_snapshot("s").unwrap();
            db.compact().unwrap();
        }
        assert!(!mem.exists(&path).unwrap());
        assert_eq!(quarantine(&db), []);
        put_all(&users, 1);
        assert_eq!(content(users.range::<&[u8], _>(..)).unwrap(), rows(1));
    }
}

#[test]
fn ten_times_the_table_is_written_above_a_damaged_file_in_bounded_space() {
    for (is_whole, has_snapshot) in CASES {
        let _place = FailedAt(format!("whole: {is_whole}, snapshot: {has_snapshot}"));
        let (mem, _) = database(is_whole, has_snapshot);
        let db = Db::open(DIR, options(&mem)).unwrap();
        let [users, other] = tables(&db);
        let live_bytes = stats(&db).file_bytes;
        for round in 1..=10 {
            for number in 0..KEYS {
                users.put(&key(number), &value(round)).unwrap();
                if number % 15 != 14 {
                    continue;
                }
                other.put(&key(number), &key(number)).unwrap();
                db.flush().unwrap();
                db.compact().unwrap();
                let now = stats(&db);
                assert!(now.runs.len() <= 12, "{:?}", now.runs);
                let bytes = now.file_bytes;
                assert!(bytes <= 3 * live_bytes, "{bytes} for {live_bytes}");
            }
            for number in 0..KEYS {
                let found = users.get(&key(number)).unwrap();
                assert_eq!(found.unwrap(), value(round)[..]);
            }
        }
        // No merge reads what only a snapshot sees.
        let is_known = is_whole || !has_snapshot;
        assert!(!is_known || quarantine(&db).len() == 1);
        // Only the run with the damaged file is not merged.
        let unmergeable_bytes = stats(&db).unmergeable_bytes;
        assert_eq!(unmergeable_bytes > 0, !quarantine(&db).is_empty());
        assert!(unmergeable_bytes <= live_bytes);
        assert_eq!(db.stats().read_only_cause, None);

        assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
        if has_snapshot {
            let keyspace = db.existing_keyspace("app").unwrap();
            let then = keyspace.snapshot("s").unwrap().table("users").unwrap();
            assert_eq!(content(then.range::<&[u8], _>(..)).unwrap(), rows(0));
            drop(then);
            keyspace.delete_snapshot("s").unwrap();
        }
        db.compact().unwrap();
        assert_eq!(content(users.range::<&[u8], _>(..)).unwrap(), rows(10));
        let bytes = stats(&db).file_bytes;
        assert!(bytes < 2 * live_bytes, "{bytes} for {live_bytes}");
    }
}
