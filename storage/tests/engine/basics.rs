//! The API as a user meets it.

use ebb_storage::{Db, Error, Maintenance, Options, TableOptions, WriteBatch};

use crate::common::one_table::{self, open_at};
use crate::common::{assert_is, create_table_snapshot};

fn options() -> Options {
    Options {
        memtable_bytes: 1 << 14,
        file_bytes: 1 << 14,
        maintenance: Maintenance::Manual,
        ..Options::default()
    }
}

fn all(range: ebb_storage::Range) -> Vec<(String, String)> {
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    range
        .map(|entry| entry.map(|(k, v)| (text(k), text(v))).unwrap())
        .collect()
}

#[test]
fn a_snapshot_reads_the_same_before_and_after_all_that_happens_to_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ks, users) = open_at(dir.path(), options(), TableOptions::default());
    for i in 0..3000 {
        let (key, value) = (format!("key{i:05}"), format!("value {i}"));
        users.put(key.as_bytes(), value.as_bytes()).unwrap();
    }
    ks.create_snapshot("before").unwrap();
    create_table_snapshot(&ks, "other", "users").unwrap();
    let read = |db: &Db| {
        let snapshot = db.keyspace("app").unwrap().snapshot("before").unwrap();
        let table = snapshot.table("users").unwrap();
        let forward = all(table.range::<&[u8], _>(..));
        let backward = table.range::<&[u8], _>(..).rev().map(Result::unwrap);
        assert_eq!(backward.count(), forward.len());
        forward
    };
    let expected = read(&db);
    assert_eq!(expected.len(), 3000);
    for round in 0..5 {
        for i in (round..3000).step_by(3) {
            let (key, value) = (format!("key{i:05}"), format!("newer {round}"));
            users.put(key.as_bytes(), value.as_bytes()).unwrap();
        }
        for i in (round..3000).step_by(7) {
            users.delete(format!("key{i:05}").as_bytes()).unwrap();
        }
        assert_eq!(read(&db), expected, "round {round}");
        db.flush().unwrap();
        assert_eq!(read(&db), expected);
        db.compact().unwrap();
        assert_eq!(read(&db), expected);
    }
    ks.delete_snapshot("other").unwrap();
    db.compact().unwrap();
    assert_eq!(read(&db), expected);
    let live = all(users.range::<&[u8], _>(..));
    drop((users, ks, db));

    let db = Db::open(dir.path(), options()).unwrap();
    assert_eq!(read(&db), expected);
    assert_eq!(all(one_table::users(&db).range::<&[u8], _>(..)), live);
    db.verify().unwrap();
}

#[test]
fn a_batch_over_two_tables_is_there_whole_after_a_restart_and_later_operations_count() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = Db::open(dir.path(), options()).unwrap();
        let ks = db.keyspace("app").unwrap();
        let [a, b] = ["a", "b"].map(|name| ks.table(name, Default::default()).unwrap());
        let mut batch = WriteBatch::new();
        batch.put(&a, b"k", b"1");
        batch.put(&b, b"k", b"2");
        batch.put(&a, b"k", b"3");
        batch.put(&b, b"gone", b"x");
        batch.delete(&b, b"gone");
        db.write(batch).unwrap();
    }
    let db = Db::open(dir.path(), options()).unwrap();
    let ks = db.existing_keyspace("app").unwrap();
    let [a, b] = ["a", "b"].map(|name| ks.existing_table(name).unwrap());
    assert_eq!(a.get(b"k").unwrap().unwrap(), "3");
    assert_eq!(b.get(b"k").unwrap().unwrap(), "2");
    assert_eq!(b.get(b"gone").unwrap(), None);
}

#[test]
fn a_range_read_from_both_ends_meets_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _, table) = open_at(dir.path(), options(), TableOptions::default());
    for i in 0..10 {
        table.put(format!("{i}").as_bytes(), b"").unwrap();
        if i % 4 == 0 {
            db.flush().unwrap();
        }
    }
    let mut range = table.range("2".."9");
    let mut seen = Vec::new();
    for step in 0.. {
        let next = if step % 3 == 0 {
            range.next_back()
        } else {
            range.next()
        };
        let Some(entry) = next else { break };
        seen.push(String::from_utf8(entry.unwrap().0.to_vec()).unwrap());
    }
    assert_eq!(seen, ["8", "2", "3", "7", "4", "5", "6"]);
    assert!(range.next().is_none() && range.next_back().is_none());
}

#[test]
fn bad_requests_are_refused_by_name_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let none = Db::open(
        &missing,
        Options {
            create_if_missing: false,
            ..options()
        },
    );
    assert_is!(none, Err(Error::NoDatabase { path }) if path == missing && !missing.exists());

    let db = Db::open(dir.path(), options()).unwrap();
    assert_is!(Db::open(dir.path(), options()), Err(Error::Locked { .. }));
    assert_is!(db.keyspace("a b"), Err(Error::InvalidRequest(_)));
    let refusal = |error: Option<Error>| match error {
        Some(Error::NotFound { what, .. }) => format!("no {what}"),
        Some(Error::AlreadyExists { what, .. }) => format!("another {what}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(db.existing_keyspace("x").err()), "no keyspace");
    let ks = db.keyspace("k").unwrap();
    let table = ks.table("t", Default::default()).unwrap();
    let created = ks.create_table("t", TableOptions::default());
    assert_eq!(refusal(created.err()), "another table");
    assert_eq!(refusal(ks.existing_table("x").err()), "no table");
    assert_eq!(refusal(ks.snapshot("x").err()), "no snapshot");
    assert_is!(ks.delete_snapshot("x"), Err(Error::NotFound { .. }));
    let created = create_table_snapshot(&ks, "s", "x");
    assert_eq!(refusal(created.err()), "no table");
    ks.create_snapshot("s").unwrap();
    assert_eq!(refusal(ks.create_snapshot("s").err()), "another snapshot");

    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = Db::open(elsewhere.path(), options()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&table, b"k", b"v");
    assert_is!(foreign.write(batch), Err(Error::InvalidRequest(_)));
}

/// A scan may run on a thread that loses its core at any moment. Scans once went through the
/// block cache, and transactional reads waited for the lock of a shard that such a thread
/// held.
#[test]
fn a_snapshot_scan_does_not_use_the_block_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ks, table) = open_at(dir.path(), options(), TableOptions::default());
    for i in 0..2000 {
        let key = format!("{i:05}");
        table.put(key.as_bytes(), b"some value").unwrap();
    }
    ks.create_snapshot("s").unwrap();
    db.flush().unwrap();
    let cache_uses = || (db.stats().cache_hits, db.stats().cache_misses);
    let before = cache_uses();
    let snapshot = ks.snapshot("s").unwrap().table("users").unwrap();
    assert_eq!(snapshot.scan::<&[u8], _>(..).count(), 2000);
    assert_eq!(cache_uses(), before);
    assert_eq!(snapshot.range::<&[u8], _>(..).count(), 2000);
    assert_ne!(cache_uses(), before, "the counters count");
}

#[test]
fn a_meter_counts_requests_of_all_kinds_and_no_reads_of_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ks, users) = open_at(dir.path(), options(), TableOptions::default());
    users.put(b"a", b"before").unwrap();
    let mut meter = db.meter();
    for key in ["a", "b", "c"] {
        users.put(key.as_bytes(), b"12").unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put(&users, b"d", b"1234");
    batch.delete(&users, b"a");
    db.write(batch).unwrap();
    let mut txn = db.begin();
    txn.put(&users, b"e", b"1").unwrap();
    assert!(txn.get(&users, b"b").unwrap().is_some());
    txn.commit().unwrap();
    users.get(b"b").unwrap();
    users.get(b"nobody").unwrap();
    users.get_many(&["b", "c", "d"]).unwrap();
    let view = db.view();
    view.get(&users, b"b").unwrap();
    view.get_many(&users, &["b", "c"]).unwrap();
    assert_eq!(users.range::<&[u8], _>(..).count(), 4);
    assert_eq!(view.range(&users, "b".."d").rev().count(), 2);
    let metered = meter.take();
    // Bytes of keys and values, of a deletion its key.
    assert_eq!(
        (metered.writes.count(), metered.writes.bytes()),
        (5, 9 + 6 + 2)
    );
    assert_eq!(
        (metered.reads.count(), metered.reads.bytes()),
        (6, 2 + 2 + 8 + 2 + 4)
    );
    assert_eq!((metered.scans.count(), metered.scans.bytes()), (2, 13 + 6));
    assert_eq!(metered.all().count(), 13);

    ks.create_snapshot("s").unwrap();
    let snapshot = ks.snapshot("s").unwrap();
    let table = snapshot.table("users").unwrap();
    table.get(b"b").unwrap();
    assert_eq!(table.range::<&[u8], _>(..).count(), 4);
    assert_eq!(table.scan::<&[u8], _>(..).count(), 4);
    assert_eq!(meter.take().all().count(), 0);
}
