//! Deleted ranges: the keys that they delete, empty bounds, truncation, and the end of a
//! range tombstone.

use crate::common::one_table::{all, merging, open, refused};
use crate::common::{content, manual};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Keyspace, Options, Table, TableOptions, WriteBatch};

/// Parses a range of keys: "a-m" is from "a" up to "m", exclusive.
fn range(text: &str) -> (std::ops::Bound<String>, std::ops::Bound<String>) {
    use std::ops::Bound::*;
    let (lower, upper) = text.split_once('-').unwrap();
    let bound = |key: &str, of: fn(String) -> std::ops::Bound<String>| match key {
        "" => Unbounded,
        key => of(key.to_string()),
    };
    (bound(lower, Included), bound(upper, Excluded))
}

fn put_all(table: &Table, keys: &str) {
    for key in keys.chars() {
        table.put(key.to_string().as_bytes(), b"").unwrap();
    }
}

fn keys_of(range: ebb_storage::Range) -> String {
    let keys = content(range).unwrap().into_keys().flatten();
    String::from_utf8(keys.collect()).unwrap()
}

fn keys(table: &Table) -> String {
    all(table);
    keys_of(table.range::<&[u8], _>(..))
}

/// Regression: after a deletion of all keys, each scan still read all the deleted keys that a
/// snapshot kept.
#[test]
fn a_scan_reads_no_run_that_is_hidden_as_a_whole() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), merging("append"));
    put_all(&table, "abcdefgh");
    db.flush().unwrap();
    keyspace.create_snapshot("all").unwrap();
    let old = keyspace.snapshot("all").unwrap().table("users").unwrap();
    let scan = |bounds: &str, expected: &str| {
        let blocks = || db.stats().cache_hits + db.stats().cache_misses;
        let before = blocks();
        assert_eq!(keys_of(table.range(range(bounds))), expected);
        blocks() - before
    };
    assert!(scan("b-g", "bcdef") > 0);
    // Several ranges of a run cover the keys together. A new key is in the same run.
    for text in ["-c", "c-e", "d-"] {
        table.delete_range(range(text)).unwrap();
    }
    put_all(&table, "x");
    db.flush().unwrap();
    assert_eq!(scan("b-g", ""), 0);
    let of_one_run = scan("-", "x");
    // A range in the memtable hides both runs; a key that is put back is read.
    table.delete_range(range("-")).unwrap();
    assert_eq!(scan("-", ""), 0);
    put_all(&table, "c");
    assert_eq!(scan("-", "c"), 0);
    db.flush().unwrap();
    assert_eq!(scan("-", "c"), of_one_run);
    // The snapshot is older than the deletions.
    assert_eq!(keys_of(old.range::<&[u8], _>(..)), "abcdefgh");
}

/// The range tombstone is first in a memtable, then in a run. Each of them also has a version that
/// the snapshot sees, so a scan of the snapshot reads it.
#[test]
fn a_scan_of_a_snapshot_reads_runs_under_newer_range_tombstones() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), merging("append"));
    put_all(&table, "abc");
    db.flush().unwrap();
    put_all(&table, "x");
    keyspace.create_snapshot("s").unwrap();
    let old = keyspace.snapshot("s").unwrap().table("users").unwrap();
    table.delete_range(range("-")).unwrap();
    for _ in 0..2 {
        assert_eq!(keys_of(old.range::<&[u8], _>(..)), "abcx");
        assert_eq!(keys(&table), "");
        db.flush().unwrap();
    }
}

#[test]
fn a_deleted_range_is_gone_from_all_that_is_older_and_from_nothing_else() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), merging("append"));
    put_all(&table, "abcdefgh");
    db.flush().unwrap();
    keyspace.create_snapshot("all").unwrap();
    put_all(&table, "cd");
    table.delete_range(range("b-d")).unwrap();
    assert_eq!(keys(&table), "adefgh");
    keyspace.create_snapshot("less").unwrap();
    let view = db.view();
    put_all(&table, "b");
    table.merge(b"c", b"new").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&table, b"f", b"under");
    batch.delete_range(&table, range("f-"));
    batch.put(&table, b"g", b"over");
    assert_eq!(batch.len(), 3);
    db.write(batch).unwrap();
    let check = |db: &Db, keyspace: &Keyspace, table: &Table| {
        assert_eq!(all(table), "a= b= c=new d= e= g=over");
        for (name, expected) in [("all", "abcdefgh"), ("less", "adefgh")] {
            let old = keyspace.snapshot(name).unwrap().table("users").unwrap();
            assert_eq!(keys_of(old.range::<&[u8], _>(..)), expected, "{name}");
            for key in "abcdefgh".chars() {
                let found = old.get(key.to_string().as_bytes()).unwrap();
                assert_eq!(found.is_some(), expected.contains(key), "{key} in {name}");
            }
        }
        db.verify().unwrap();
    };
    check(&db, &keyspace, &table);
    assert_eq!(keys_of(view.range::<&[u8], _>(&table, ..)), "adefgh");
    drop(view);
    db.flush().unwrap();
    check(&db, &keyspace, &table);
    db.compact().unwrap();
    check(&db, &keyspace, &table);
    drop((db, keyspace, table));
    let (db, keyspace, table) = open(manual(&mem), merging("append"));
    check(&db, &keyspace, &table);
    // Without the snapshots, no reader needs the deleted versions. The picker merges from four runs of
    // similar size on, so that these flushes lead to a merge of all runs.
    for name in ["all", "less"] {
        keyspace.delete_snapshot(name).unwrap();
    }
    for key in "ijklmn".chars() {
        put_all(&table, &key.to_string());
        db.flush().unwrap();
        db.compact().unwrap();
    }
    assert_eq!(all(&table), "a= b= c=new d= e= g=over i= j= k= l= m= n=");
    assert_eq!(db.stats().tables[0].versions, 12);
}

#[test]
fn an_empty_or_inverted_range_writes_nothing() {
    use std::ops::Bound::*;
    let mem = MemDisk::new();
    let (db, _, table) = open(manual(&mem), TableOptions::default());
    put_all(&table, "abc");
    let before = db.view().seq();
    table.delete_range("b".."b").unwrap();
    let (lower, upper) = ("c", "a");
    table.delete_range(lower..upper).unwrap();
    for empty in [
        (Excluded("a"), Excluded("a\0")),
        (Excluded("b"), Included("b")),
    ] {
        table.delete_range::<&str, _>(empty).unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.delete_range(&table, "b".."b");
    assert!(batch.is_empty());
    assert_eq!((db.view().seq(), keys(&table)), (before, "abc".into()));
    table.delete_range("a"..="b").unwrap();
    assert_eq!(keys(&table), "c");
    table
        .delete_range::<&str, _>((Excluded("b"), Unbounded))
        .unwrap();
    assert_eq!(keys(&table), "");
}

#[test]
fn bounds_of_a_deleted_range_may_be_the_key_behind_the_longest() {
    use ebb_storage::MAX_KEY_BYTES;
    let mem = MemDisk::new();
    let (_db, _, table) = open(manual(&mem), TableOptions::default());
    let longest = vec![b'k'; MAX_KEY_BYTES];
    table.put(&longest, b"1").unwrap();
    table.put(b"m", b"2").unwrap();
    table.delete_range(..=longest.clone()).unwrap();
    assert_eq!(all(&table), "m=2");
    let behind = [&longest[..], b"\0"].concat();
    table.delete_range(behind.clone()..).unwrap();
    assert_eq!(all(&table), "");
    refused(table.delete_range(..=behind), &["262146"]);
}

/// The space of a truncated table becomes free without a byte of the table being read or written
/// again. If a snapshot covers the table, that happens when the snapshot is deleted.
#[test]
fn a_truncated_table_gives_its_space_back_unread() {
    for with_snapshot in [false, true] {
        let mem = MemDisk::new();
        let (db, keyspace, table) = open(manual(&mem), TableOptions::default());
        for i in 0..3000_u64 {
            let value = i
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes()
                .repeat(8);
            table.put(format!("key{i}").as_bytes(), &value).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        if with_snapshot {
            keyspace.create_snapshot("s").unwrap();
        }
        let before = db.stats();
        table.truncate().unwrap();
        assert_eq!(keys(&table), "");
        if with_snapshot {
            let old = keyspace.snapshot("s").unwrap().table("users").unwrap();
            assert_eq!(old.range::<&[u8], _>(..).count(), 3000);
            drop(old);
            assert!(db.stats().tables[0].runs.len() > 1);
            keyspace.delete_snapshot("s").unwrap();
            db.compact().unwrap();
        }
        let after = db.stats();
        assert_eq!(after.tables[0].runs.len(), 0, "{with_snapshot}");
        assert_eq!(after.compaction_bytes, before.compaction_bytes);
        assert_eq!(crate::common::files(&mem, ".sst").len(), 0);
        put_all(&table, "a");
        assert_eq!(keys(&table), "a");
    }
}

/// The key range of a run includes its range tombstones. Without them, a run would be dropped once
/// newer range tombstones cover the keys of its versions, though its own range tombstones still
/// hide older versions.
#[test]
fn a_run_whose_keys_are_covered_stays_for_its_range_tombstones() {
    let mem = MemDisk::new();
    let (db, _, table) = open(manual(&mem), TableOptions::default());
    // Enough for the others not to be merged with it.
    let value: Vec<u8> = (0..9000_u32).map(|i| ((i * i) >> 7) as u8).collect();
    table.put(b"x", &value).unwrap();
    db.flush().unwrap();
    table.delete_range("x".."z").unwrap();
    put_all(&table, "b");
    db.flush().unwrap();
    table.delete_range("a".."d").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(keys(&table), "");
    drop((db, table));
    let (_db, _, table) = open(manual(&mem), TableOptions::default());
    assert_eq!(keys(&table), "");
}

/// A flush or a merge may drop a range tombstone only if the tombstone hides no version in older
/// runs, and none that stays in its own run.
#[test]
fn range_tombstones_stay_while_anything_is_under_them_and_go_in_the_end() {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), TableOptions::default());
    let value: Vec<u8> = (0..9000_u32).map(|i| ((i * i) >> 7) as u8).collect();
    table.put(b"x", &value).unwrap();
    db.flush().unwrap();
    table.delete_range("x".."z").unwrap();
    db.flush().unwrap();
    assert_eq!(keys(&table), "");
    // In one memtable, with nothing below.
    put_all(&table, "cde");
    table.delete_range("c".."e").unwrap();
    db.flush().unwrap();
    assert_eq!(keys(&table), "e");
    // And with a reader in between.
    put_all(&table, "gh");
    keyspace.create_snapshot("s").unwrap();
    table.delete_range("g".."h").unwrap();
    db.flush().unwrap();
    let then = keyspace.snapshot("s").unwrap().table("users").unwrap();
    assert_eq!(keys_of(then.range::<&[u8], _>(..)), "egh");
    assert_eq!(keys(&table), "eh");
    drop(then);
    keyspace.delete_snapshot("s").unwrap();
    table.truncate().unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().tables[0].runs.len(), 0);
}

/// A view (`Db::view`) that was created before a truncation still reads the truncated versions.
#[test]
fn a_view_keeps_runs_that_a_truncation_covers() {
    let mem = MemDisk::new();
    let (db, _, table) = open(manual(&mem), TableOptions::default());
    put_all(&table, "abc");
    // Enough for the tombstone not to be merged with it.
    let value: Vec<u8> = (0..9000_u32).map(|i| ((i * i) >> 7) as u8).collect();
    table.put(b"c", &value).unwrap();
    db.flush().unwrap();
    let view = db.view();
    table.truncate().unwrap();
    put_all(&table, "b");
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(keys_of(view.range::<&[u8], _>(&table, ..)), "abc");
    assert_eq!(keys(&table), "b");
    drop(view);
    db.compact().unwrap();
    assert_eq!(
        (db.stats().tables[0].versions, keys(&table)),
        (1, "b".into())
    );
}

/// Regression: a queue deletes up to its front, again and again. Each call copied the sequence
/// numbers of all calls before: 1500 calls took five seconds, as did reopening, and none of that
/// memory was counted, so that no memtable was ever full.
#[test]
fn deleting_up_to_a_front_that_moves_costs_each_time_the_same() {
    let mem = MemDisk::new();
    let options = || Options {
        memtable_bytes: 64 << 20,
        ..manual(&mem)
    };
    let (db, keyspace, table) = open(options(), TableOptions::default());
    let key = |n: u32| n.to_be_bytes();
    let calls = 20_000;
    for n in 0..calls {
        let mut batch = WriteBatch::new();
        batch.put(&table, &key(n), b"");
        batch.delete_range(&table, ..key(n));
        db.write(batch).unwrap();
        if n == calls / 2 {
            keyspace.create_snapshot("half").unwrap();
        }
    }
    let bytes = db.stats().tables[0].memtable_bytes;
    assert!(bytes > 100 * u64::from(calls), "only {bytes} are counted");
    assert!(bytes < 1000 * u64::from(calls), "{bytes} are counted");
    let view = db.view();
    let check = |keyspace: &Keyspace, table: &Table| {
        let old = keyspace.snapshot("half").unwrap().table("users").unwrap();
        for (range, front) in [
            (table.range::<&[u8], _>(..), calls - 1),
            (old.range::<&[u8], _>(..), calls / 2),
        ] {
            let keys: Vec<_> = content(range).unwrap().into_keys().collect();
            assert_eq!(keys, [key(front)]);
        }
        for n in [0, calls / 2 - 1, calls / 2, calls / 2 + 1, calls - 1] {
            let (here, then) = (n == calls - 1, n == calls / 2);
            assert_eq!(table.get(&key(n)).unwrap().is_some(), here, "{n}");
            assert_eq!(old.get(&key(n)).unwrap().is_some(), then, "{n}");
        }
    };
    check(&keyspace, &table);
    drop((view, db, keyspace, table));
    let (db, keyspace, table) = open(options(), TableOptions::default());
    assert!(db.stats().tables[0].memtable_bytes > 100 * u64::from(calls));
    check(&keyspace, &table);
    db.flush().unwrap();
    check(&keyspace, &table);
    db.compact().unwrap();
    check(&keyspace, &table);
    db.verify().unwrap();
}
