//! A merge that meets damage stops no write, merges a file that reads as whole at the second time,
//! and keeps deletions above a file that does not open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, FileSystem, Maintenance, Options, Table};

use super::{
    KEYS, back_up, database, delete_snapshots, files_of_users, key, one_run, options, paths,
    quarantine, read, tables,
};

/// Regression: after a merge read one flipped bit, no table could be written. After each further
/// opening, the database became read-only again at its first merge, and the damaged table could not
/// be dropped.
#[test]
fn a_bit_that_a_merge_meets_stops_no_write_to_any_table() {
    let (mem, _) = database(7);
    let db = Db::open(DIR, options(&mem)).unwrap();
    delete_snapshots(&db);
    drop(db);
    let path = files_of_users(&mem.fork()).remove(0);
    mem.flip_bit(&path, 100, 3).unwrap();
    let background = || Options {
        maintenance: Maintenance::Background,
        ..options(&mem)
    };
    for _ in 0..3 {
        let db = Db::open(DIR, background()).unwrap();
        let [users, other] = tables(&db);
        let mut written = 0_u32;
        until("a merge to meet the damage, and another one", || {
            for _ in 0..100 {
                let value = written.to_be_bytes().repeat(20);
                users.put(&key((written % 60) as u8), &value).unwrap();
                other.put(&written.to_be_bytes(), &value).unwrap();
                written += 1;
            }
            let has_merged = db.stats().compactions > 0;
            written >= 4000 && has_merged && !quarantine(&db).is_empty()
        });
        let stats = db.stats();
        assert_eq!(
            (stats.read_only_cause, stats.maintenance_failure),
            (None, None)
        );
        assert_eq!(paths(&quarantine(&db)), std::slice::from_ref(&path));
    }
    let db = Db::open(DIR, background()).unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.drop_table("users").unwrap();
    db.flush().unwrap();
    drop((keyspace, db));
    assert!(!mem.exists(&path).unwrap());
}

/// The first read returns damaged bytes, but the bytes on the disk are undamaged (as after a memory
/// error). A merge reads the file again, so the file does not come into quarantine.
#[test]
fn what_reads_at_the_second_time_is_merged() {
    let (mem, model) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    mem.flip_bit(&path, 100, 3).unwrap();
    let is_bad = Arc::new(AtomicBool::new(true));
    let (disk, damaged) = (mem.clone(), path.clone());
    let hook = move |call, path: &std::path::Path| {
        if call == Call::ForgetCached && path == damaged && is_bad.swap(false, Ordering::Relaxed) {
            disk.flip_bit(path, 100, 3)?;
        }
        Ok(())
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    let db = Db::open(DIR, options).unwrap();
    let [users, _] = tables(&db);
    assert!(read(&db, &model, std::slice::from_ref(&path)).damaged > 0);
    let before = db.stats().compactions;
    let keyspace = db.existing_keyspace("app").unwrap();
    for snapshot in model.snapshots.keys() {
        keyspace.delete_snapshot(snapshot).unwrap();
    }
    for number in 0..8 {
        users.put(&key(200 + number), b"above").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
    }
    assert!(db.stats().compactions > before);
    assert_eq!(quarantine(&db), []);
    assert!(!mem.exists(&path).unwrap(), "it was merged");
    for (key, value) in &model.now {
        assert_eq!(users.get(key).unwrap().unwrap(), value[..]);
    }
}

/// A file that does not open may hold versions that newer deletions hide. So merges keep such
/// deletions in the runs above (newer than) the file. Otherwise the hidden versions would come back
/// when the file is restored.
#[test]
fn what_is_above_a_file_that_does_not_open_is_kept_until_that_is_whole_again() {
    let mem = MemDisk::new();
    let (db, users) = one_run(&mem, 40);
    back_up(&mem, &db);
    drop((users, db));
    let all = files(&mem, ".sst");
    damage_file(&mem, &all[all.len() / 2], true);

    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    let is_bad = |number: &u8| users.get(&key(*number)).is_err();
    let bad: Vec<u8> = (0..KEYS).filter(is_bad).collect();
    let [deleted, range, operand, left, ..] = bad[..] else {
        panic!("{bad:?}");
    };
    let check = |users: &Table| {
        assert_eq!(users.get(&key(deleted)).unwrap(), None);
        assert_eq!(users.get(&key(range)).unwrap(), None);
        users.get(&key(operand)).unwrap_err();
        users.get(&key(left)).unwrap_err();
    };
    users.delete(&key(deleted)).unwrap();
    users.delete_range(key(range)..key(range + 1)).unwrap();
    users.merge(&key(operand), b"more").unwrap();
    db.flush().unwrap();
    check(&users);
    for _ in 0..8 {
        // Neighbours above the file, which are merged.
        users.merge(&key(operand), b"+").unwrap();
        db.flush().unwrap();
    }
    let before = db.stats().compactions;
    db.compact().unwrap();
    assert!(db.stats().compactions > before);
    check(&users);

    assert_eq!(db.restore("/copied").unwrap().restored.len(), 1);
    for number in 0..KEYS {
        let expected = match number {
            _ if number == deleted || number == range => None,
            _ if number == operand => Some([&[number; 40][..], b"more++++++++"].concat()),
            _ => Some(vec![number; 40]),
        };
        let found = users.get(&key(number)).unwrap();
        assert_eq!(found.as_deref(), expected.as_deref(), "{number}");
    }
}
