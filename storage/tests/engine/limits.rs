//! The longest keys and values, empty ones, and those that are too long, by
//! every way to write them.

use std::fmt::Debug;
use std::time::Duration;

use crate::common::one_table::{self, merging, uncompressed};
use crate::common::{manual, writer_options};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Compression, Db, Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Maintenance, Options, SortedWriter,
    Table, TableOptions, TieredPicker, WriteBatch,
};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> TableOptions {
    merging("append")
}

fn open(options_of_db: Options) -> (Db, Table) {
    let (db, _, table) = one_table::open(options_of_db, options());
    (db, table)
}

fn refused<T: Debug>(outcome: Result<T, Error>, expected: &str) {
    match outcome {
        Err(Error::InvalidRequest(text)) => assert!(text.contains(expected), "{text}"),
        other => panic!("{other:?}"),
    }
}

fn batch(fill: impl FnOnce(&mut WriteBatch)) -> WriteBatch {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    batch
}

#[test]
fn the_longest_key_is_taken_by_every_way_in_and_one_longer_by_none() {
    let mem = MemDisk::new();
    let (db, table) = open(manual(&mem));
    let key = |first: u8, bytes: usize| {
        let mut key = vec![b'k'; bytes];
        key[0] = first;
        key
    };
    let fits = |first| key(first, MAX_KEY_BYTES);
    table.put(&fits(b'a'), b"put").unwrap();
    table.merge(&fits(b'b'), b"merge").unwrap();
    table
        .put_with_ttl(&fits(b'f'), b"ttl", Duration::MAX)
        .unwrap();
    db.write(batch(|b| b.put(&table, &fits(b'c'), b"batch")))
        .unwrap();
    let mut txn = db.begin();
    txn.put(&table, &fits(b'd'), b"txn").unwrap();
    txn.commit().unwrap();
    let sorted = writer_options(&mem);
    let mut writer = SortedWriter::create("/out", "w", sorted).unwrap();
    writer.put(&fits(b'e'), b"ingest").unwrap();
    let over = |first| key(first, MAX_KEY_BYTES + 1);
    let too_long = |outcome: Result<(), Error>| refused(outcome, "262145");
    too_long(writer.put(&over(b'f'), b""));
    too_long(writer.delete(&over(b'f')));
    table.ingest(&writer.finish().unwrap()).unwrap();

    let before = db.view().seq();
    too_long(table.put(&over(b'a'), b""));
    too_long(table.merge(&over(b'a'), b""));
    too_long(table.delete(&over(b'a')));
    too_long(table.put_with_ttl(&over(b'a'), b"", SECOND));
    too_long(db.write(batch(|b| b.put(&table, &over(b'a'), b""))));
    too_long(db.write(batch(|b| b.delete(&table, &over(b'a')))));
    too_long(db.write(batch(|b| b.merge(&table, &over(b'a'), b""))));
    let mut txn = db.begin();
    too_long(txn.put(&table, &over(b'a'), b""));
    drop(txn);
    assert_eq!(db.view().seq(), before);
    // To look for a key that cannot be there is no error.
    assert_eq!(table.get(&over(b'a')).unwrap(), None);

    let check = |db: &Db, table: &Table| {
        for (first, value) in [
            (b'a', "put"),
            (b'b', "merge"),
            (b'c', "batch"),
            (b'd', "txn"),
            (b'e', "ingest"),
            (b'f', "ttl"),
        ] {
            assert_eq!(table.get(&fits(first)).unwrap().unwrap(), value);
            let mut one = table.range(fits(first)..=fits(first));
            assert_eq!(one.next().unwrap().unwrap().1, value);
            assert!(one.next().is_none());
        }
        assert_eq!(table.range(over(b'a')..over(b'd')).count(), 3);
        db.verify().unwrap();
    };
    check(&db, &table);
    db.flush().unwrap();
    check(&db, &table);
    drop((db, table));
    let (db, table) = open(manual(&mem));
    check(&db, &table);
    table.delete_range(fits(b'b')..=fits(b'c')).unwrap();
    assert_eq!(table.range::<&[u8], _>(..).count(), 4);
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(table.range::<&[u8], _>(..).count(), 4);
}

#[test]
fn the_empty_key_and_empty_values_are_like_all_others_by_every_way_in() {
    type Put = fn(&Db, &Table, &MemDisk);
    let ways: [Put; 5] = [
        |_, table, _| table.put(b"", b"").unwrap(),
        |_, table, _| table.merge(b"", b"").unwrap(),
        |db, table, _| db.write(batch(|b| b.put(table, b"", b""))).unwrap(),
        |db, table, _| {
            let mut txn = db.begin();
            txn.put(table, b"", b"").unwrap();
            assert_eq!(txn.get(table, b"").unwrap().unwrap(), "");
            txn.commit().unwrap();
        },
        |_, table, mem| {
            let sorted = writer_options(mem);
            let mut writer = SortedWriter::create("/out", "w", sorted).unwrap();
            writer.put(b"", b"").unwrap();
            table.ingest(&writer.finish().unwrap()).unwrap();
        },
    ];
    for put in ways {
        let mem = MemDisk::new();
        let (db, table) = open(manual(&mem));
        let check = |table: &Table| {
            assert_eq!(table.get(b"").unwrap().unwrap(), "");
            let rows: Vec<_> = table.range::<&[u8], _>(..).map(Result::unwrap).collect();
            assert_eq!(rows, [(Default::default(), Default::default())]);
            let empty: &[u8] = b"";
            assert_eq!(table.range(empty..=empty).rev().count(), 1);
            assert_eq!(table.range(empty..empty).count(), 0);
        };
        put(&db, &table, &mem);
        check(&table);
        db.flush().unwrap();
        check(&table);
        drop((db, table));
        let (db, table) = open(manual(&mem));
        check(&table);
        db.verify().unwrap();
        table.delete(b"").unwrap();
        assert_eq!(table.get(b"").unwrap(), None);
        put(&db, &table, &mem);
        check(&table);
        let empty: &[u8] = b"";
        table.delete_range(empty..=empty).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(table.range::<&[u8], _>(..).count(), 0);
    }
}

/// Writes values of the maximal length by puts, merges, a transaction and an ingest, and passes
/// them through the log, the memtable, compressed and uncompressed files, and a compaction. Each
/// kind of write refuses a value that is one byte longer. Uses a real disk, to save memory.
#[test]
fn the_longest_value_goes_through_everything_and_one_longer_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let value = vec![7; MAX_VALUE_BYTES];
    let longer = vec![7; MAX_VALUE_BYTES + 1];
    let options_of_db = || Options {
        maintenance: Maintenance::Manual,
        // Any size below that of a value does: each write of a value then flushes its memtable. To
        // save memory, no cache keeps the values that are read.
        memtable_bytes: 1 << 20,
        cache_bytes: 0,
        compaction: TieredPicker {
            runs_before_merge: 2,
            ..TieredPicker::default()
        }
        .into(),
        ..Options::default()
    };
    let open = || {
        let (db, keyspace, table) =
            one_table::open_at(dir.path().join("db"), options_of_db(), options());
        let plain = keyspace.table("plain", uncompressed()).unwrap();
        (db, table, plain)
    };
    let check = |table: &Table, key: &[u8]| {
        let found = table.get(key).unwrap().unwrap();
        assert!(found.len() == MAX_VALUE_BYTES && found.iter().all(|byte| *byte == 7));
    };
    {
        let (db, table, plain) = open();
        refused(table.put(b"k", &longer), "268435457");
        refused(table.merge(b"k", &longer), "268435457");
        refused(table.put_with_ttl(b"k", &longer, SECOND), "268435457");
        refused(
            db.write(batch(|b| b.put(&table, b"k", &longer))),
            "268435457",
        );
        let mut txn = db.begin();
        refused(txn.put(&table, b"k", &longer), "268435457");
        drop(txn);
        let out = dir.path().join("out");
        let mut writer = SortedWriter::create(&out, "w", Default::default()).unwrap();
        refused(writer.put(b"k", &longer), "268435457");
        assert_eq!(db.view().seq().0, 0);

        writer.put(b"ingested", &value).unwrap();
        table.ingest(&writer.finish().unwrap()).unwrap();
        check(&table, b"ingested");
        plain.put(b"plain", &value).unwrap();
        check(&plain, b"plain");
    }
    let (db, table, plain) = open();
    check(&plain, b"plain");
    // Without the pause, the write of the operand would merge its run with the ingested one. The
    // last run would then be too small to be merged with the result.
    let pause = db.pause_merges();
    table.merge(b"merged", &value).unwrap();
    check(&table, b"merged");
    let mut txn = db.begin();
    txn.put(&table, b"txn", &value).unwrap();
    txn.commit().unwrap();
    db.flush().unwrap();
    let runs = || table.stats().runs.len();
    assert_eq!(runs(), 3);
    // To save memory, because the compaction holds several values of this size.
    drop((pause, value, longer));
    db.compact().unwrap();
    assert_eq!(runs(), 1);
    drop((db, table, plain));
    let (db, table, plain) = open();
    check(&plain, b"plain");
    for key in [&b"ingested"[..], b"merged", b"txn"] {
        check(&table, key);
    }
    db.verify().unwrap();
}

#[test]
fn options_that_contradict_the_stored_ones_are_named_beside_them() {
    let mem = MemDisk::new();
    let (db, table) = open(manual(&mem));
    let keyspace = db.existing_keyspace("app").unwrap();
    let contradicting = |change: fn(&mut TableOptions), stored: &str, requested: &str| {
        let mut other = options();
        change(&mut other);
        let outcome = keyspace.table("users", other);
        let text = match outcome {
            Err(Error::InvalidRequest(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(text.contains("app.users"), "{text}");
        let (at, with) = (text.find(stored), text.rfind(requested));
        assert!(
            at.is_some() && at < with,
            "{stored} and {requested} in {text}"
        );
    };
    contradicting(|o| o.merge_operator = None, "\"append\"", "None");
    contradicting(
        |o| o.sstable.block_bytes = 512,
        "block_bytes: 4096",
        "block_bytes: 512",
    );
    contradicting(
        |o| o.sstable.compression = Compression::None,
        "Lz4",
        "compression: None",
    );
    drop((db, table, keyspace));
    open(manual(&mem));
}
