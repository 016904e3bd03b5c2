//! Versions beyond put and delete: merge operands, and puts that expire.

use std::time::Duration;

use crate::common::one_table::{all, get, merging, open, refused, text};
use crate::common::{assert_is, clocked, content, lose_power, manual};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Durability, Error, Keyspace, ManualClock, MergeOperator, MergeOperators, Options, Table,
    TableOptions, WriteBatch,
};

#[test]
fn operands_fold_over_memtables_runs_snapshots_and_restarts() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), merging("append"));
    table.put(b"a", b"0").unwrap();
    table.merge(b"b", b"1").unwrap();
    db.flush().unwrap();
    table.merge(b"a", b"1").unwrap();
    table.delete(b"b").unwrap();
    table.merge(b"b", b"2").unwrap();
    keyspace.create_snapshot("s").unwrap();
    let view = db.view();
    table.merge(b"a", b"2").unwrap();
    table.merge(b"a", b"3").unwrap();
    db.flush().unwrap();
    table.merge(b"a", b"4").unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(&table, b"c", b"x");
    batch.merge(&table, b"c", b"y");
    db.write(batch).unwrap();
    let check = |table: &Table, keyspace: &Keyspace| {
        assert_eq!(all(table), "a=01234 b=2 c=xy");
        let old = keyspace.snapshot("s").unwrap().table("users").unwrap();
        let old = content(old.range::<&[u8], _>(..)).unwrap();
        assert_eq!(
            old,
            [
                (b"a".to_vec(), b"01".to_vec()),
                (b"b".to_vec(), b"2".to_vec())
            ]
            .into()
        );
    };
    check(&table, &keyspace);
    assert_eq!(text(view.get(&table, b"a").unwrap()).unwrap(), "01");
    drop(view);
    for _ in 0..2 {
        db.flush().unwrap();
        db.compact().unwrap();
        check(&table, &keyspace);
    }
    keyspace.delete_snapshot("s").unwrap();
    table.merge(b"a", b"5").unwrap();
    lose_power(&mem, (db, keyspace, table), 1);
    let (db, _, table) = open(manual(&mem), merging("append"));
    db.flush().unwrap();
    db.compact().unwrap();
    assert!(all(&table).starts_with("a=01234"));
}

/// A flush of many operands of a key leaves one version.
#[test]
fn a_flush_folds_operands() {
    let mem = MemDisk::new();
    let (db, _, table) = open(manual(&mem), merging("add"));
    for i in 0..100_u64 {
        table.merge(b"n", &i.to_le_bytes()).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.stats().tables[0].versions, 1);
    assert_eq!(
        table.get(b"n").unwrap().unwrap(),
        4950_u64.to_le_bytes()[..]
    );
}

#[derive(Debug)]
struct Mine;

impl MergeOperator for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        if [older, newer].contains(&&b"bad"[..]) {
            return Err("no such operand".into());
        }
        Ok([older, newer].concat())
    }
}

#[test]
fn a_table_without_an_operator_takes_no_operands() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), TableOptions::default());
    refused(table.merge(b"a", b"1"), &["app.users", "no merge operator"]);
    let mut batch = WriteBatch::new();
    batch.put(&table, b"a", b"1");
    batch.merge(&table, b"a", b"2");
    refused(db.write(batch), &["app.users"]);
    assert_eq!(all(&table), "");
    refused(
        keyspace.table("sums", merging("sum")).map(drop),
        &["app.sums", "\"sum\"", "append"],
    );
    assert_eq!(keyspace.tables(), ["users"]);
}

const LARGER: &str = "large enough for the run below to be worth a merge";

/// A database may be opened by a program without the merge operator of a table, and later by a
/// program that has the operator.
#[test]
fn a_table_whose_operator_is_not_known_keeps_its_operands() {
    let mem = MemDisk::new();
    let knowing = || Options {
        merge_operators: MergeOperators::default().with(Mine),
        ..manual(&mem)
    };
    let (db, keyspace, table) = open(knowing(), merging("mine"));
    table.put(b"put", b"1").unwrap();
    table.merge(b"k", b"1").unwrap();
    db.flush().unwrap();
    drop((db, keyspace, table));

    let (db, keyspace, table) = open(manual(&mem), merging("mine"));
    table.merge(b"k", b"2").unwrap();
    table.put(b"put", LARGER.as_bytes()).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].runs.len(), 1);
    assert_eq!(get(&table, "put").unwrap(), LARGER);
    refused(table.get(b"k").map(drop), &["app.users", "\"mine\""]);
    let found: Vec<_> = table.range::<&[u8], _>(..).collect();
    refused(found[0].clone().map(drop), &["app.users", "\"mine\""]);
    assert_eq!(found.len(), 1, "a range ends with its first error");
    drop((db, keyspace, table));

    let (_db, _, table) = open(knowing(), merging("mine"));
    assert_eq!(all(&table), format!("k=12 put={LARGER}"));
}

#[test]
fn an_operator_that_fails_is_named_with_the_key_and_loses_nothing() {
    let mem = MemDisk::new();
    let options = Options {
        merge_operators: MergeOperators::none().with(Mine),
        ..manual(&mem)
    };
    let (db, _, table) = open(options, merging("mine"));
    for operand in ["1", "bad", "2"] {
        table.merge(b"k", operand.as_bytes()).unwrap();
        table.merge(b"other", b"x").unwrap();
    }
    for _ in 0..2 {
        let error = table.get(b"k").unwrap_err();
        assert_is!(&error, Error::Merge { key, operator, .. } if key == b"k" && operator == "mine");
        assert!(error.to_string().contains("no such operand"), "{error}");
        assert_eq!(get(&table, "other").unwrap(), "xxx");
        db.flush().unwrap();
        db.compact().unwrap();
    }
    table.put(b"k", b"new").unwrap();
    table.merge(b"k", b"er").unwrap();
    assert_eq!(all(&table), "k=newer other=xxx");
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_put_with_a_ttl_goes_at_its_time_wherever_it_lies() {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1000));
    let (db, keyspace, table) = open(clocked(&mem, &clock), merging("append"));
    table.put(b"a", b"old").unwrap();
    table.put_with_ttl(b"a", b"new", SECOND).unwrap();
    table.put_with_ttl(b"b", b"1", 3 * SECOND).unwrap();
    table.merge(b"b", b"2").unwrap();
    table.put_with_ttl(b"c", b"", Duration::ZERO).unwrap();
    let in_memory = table.clone();
    assert_eq!(all(&in_memory), "a=new b=12");
    let iterator = table.range::<&[u8], _>(..);
    let view = db.view();
    keyspace.create_snapshot("s").unwrap();
    clock.advance_ms(999);
    assert_eq!(all(&table), "a=new b=12");
    clock.advance_ms(1);
    // What it replaced does not come back.
    assert_eq!(all(&table), "b=12");
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(all(&table), "b=12");
    clock.advance_ms(2000);
    assert_eq!(all(&table), "b=2");
    for _ in 0..2 {
        db.flush().unwrap();
        db.compact().unwrap();
    }
    // A reader compares expiry with the time at which it began.
    let expected = [
        (b"a".to_vec(), b"new".to_vec()),
        (b"b".to_vec(), b"12".to_vec()),
    ];
    assert_eq!(content(iterator).unwrap(), expected.clone().into());
    let seen = content(view.range::<&[u8], _>(&table, ..)).unwrap();
    assert_eq!(seen, expected.clone().into());
    assert_eq!(text(view.get(&table, b"a").unwrap()).unwrap(), "new");
    drop((view, in_memory, db, keyspace, table));
    let (db, keyspace, table) = open(clocked(&mem, &clock), merging("append"));
    let old = || {
        let old = keyspace.snapshot("s").unwrap().table("users").unwrap();
        content(old.range::<&[u8], _>(..)).unwrap()
    };
    assert_eq!(old(), expected.clone().into());
    table.put(b"z", b"").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(old(), expected.into());
    assert_eq!(all(&table), "b=2 z=");
}

#[test]
fn values_that_expired_for_all_readers_are_gone_from_the_files() {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1000));
    let (db, _, table) = open(clocked(&mem, &clock), TableOptions::default());
    for i in 0..100 {
        let key = format!("key{i}");
        table.put_with_ttl(key.as_bytes(), b"v", SECOND).unwrap();
    }
    let view = db.view();
    clock.advance_ms(1000);
    db.flush().unwrap();
    assert_eq!(db.stats().tables[0].versions, 100, "the view sees them");
    drop(view);
    for i in 0..200 {
        table.delete(format!("other{i}").as_bytes()).unwrap();
    }
    table.put(b"x", b"").unwrap();
    db.flush().unwrap();
    for i in 0..200 {
        table.put(format!("key{i}").as_bytes(), b"").unwrap();
        table.delete(format!("key{i}").as_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].versions, 1);
    assert_eq!(db.stats().tables[0].runs.len(), 1);
}

/// The log contains the time at which an entry expires, not its TTL. So replay does not extend the
/// life of the entry.
#[test]
fn an_expiry_does_not_move_with_a_restart() {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1000));
    let options = || Options {
        durability: Durability::Sync,
        ..clocked(&mem, &clock)
    };
    let (db, keyspace, table) = open(options(), TableOptions::default());
    table.put_with_ttl(b"a", b"1", SECOND).unwrap();
    table.put_with_ttl(b"b", b"1", Duration::MAX).unwrap();
    clock.advance_ms(600);
    lose_power(&mem, (db, keyspace, table), 1);
    let (_db, _, table) = open(options(), TableOptions::default());
    assert_eq!(all(&table), "a=1 b=1");
    clock.advance_ms(400);
    assert_eq!(all(&table), "b=1");
}

/// Nothing was written between two snapshots, but an entry expired. The earlier snapshot still
/// shows the entry, and keeps merges from dropping it.
#[test]
fn a_snapshot_judges_at_the_time_in_its_record() {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1000));
    let (db, keyspace, table) = open(clocked(&mem, &clock), TableOptions::default());
    table.put_with_ttl(b"a", b"1", SECOND).unwrap();
    keyspace.create_snapshot("early").unwrap();
    clock.advance_ms(1000);
    keyspace.create_snapshot("late").unwrap();
    let found = |name: &str| {
        let table = keyspace.snapshot(name).unwrap().table("users").unwrap();
        text(table.get(b"a").unwrap())
    };
    for _ in 0..2 {
        assert_eq!(found("early").as_deref(), Some("1"));
        assert_eq!(found("late"), None);
        db.flush().unwrap();
        table.put(b"b", b"").unwrap();
        db.compact().unwrap();
    }
    keyspace.delete_snapshot("early").unwrap();
    table.put(b"c", &[0; 3000]).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(found("late"), None);
}

#[test]
fn keys_and_prefixes_are_read_at_one_instant_and_ranges_are_measured_and_cut() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), TableOptions::default());
    for i in 0..2000_u64 {
        let value = i
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes()
            .repeat(4);
        table.put(format!("key{i:04}").as_bytes(), &value).unwrap();
    }
    keyspace.create_snapshot("s").unwrap();
    let view = db.view();
    table.delete(b"key0001").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    let old = keyspace.snapshot("s").unwrap().table("users").unwrap();

    let some = ["key0003", "nothing", "key0001", "key0003"];
    let there = |found: Vec<Option<ebb_storage::Value>>| {
        found.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(
        there(table.get_many(&some).unwrap()),
        [true, false, false, true]
    );
    for found in [view.get_many(&table, &some), old.get_many(&some)] {
        assert_eq!(there(found.unwrap()), [true, false, true, true]);
    }

    assert_eq!(table.prefix(b"key000").count(), 9);
    assert_eq!(view.prefix(&table, b"key000").count(), 10);
    assert_eq!(old.prefix(b"key1").count(), 1000);
    assert_eq!(table.prefix(b"").rev().count(), 1999);

    let all = old.approximate_bytes::<&[u8], _>(..);
    let half = old.approximate_bytes("key1000"..);
    assert!(half > all / 3 && half < all * 2 / 3, "{half} of {all}");
    assert_eq!(old.approximate_bytes("l"..), 0);

    let cuts = old.split_keys("key0500".."key1500", 4);
    assert_eq!(cuts.len(), 3);
    assert!(cuts.is_sorted() && cuts[0] > "key0500" && cuts[2] < "key1500");
    let first = old.range::<&[u8], _>(&b"key0500"[..]..&cuts[0]).count();
    assert!((150..350).contains(&first), "{first} of 1000");
    assert_eq!(old.split_keys::<&[u8], _>(.., 1).len(), 0);
}
