//! Every reader of a table at one instant returns the same through `TableReader`. How a read that
//! has enough stops is in `early_stops`.

use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use crate::common::one_table::{merging, open};
use crate::common::{Content, FailedAt, Rng, assert_is, clocked, content, for_seeds, manual, rng};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Cache, Db, DetachedOptions, DetachedTable, Entry, Error, FoundSoFar, ManualClock, Result,
    Table, TableOptions, TableReader, Value,
};
use rand::RngExt;

/// The number of keys. Each key is a single byte below this number.
const KEYS: u8 = 40;

/// Makes random writes of all kinds, with a flush now and then.
fn change(db: &Db, table: &Table, rng: &mut Rng) {
    for _ in 0..150 {
        let number = rng.random_range(0..KEYS);
        let key = [number];
        let done = match rng.random_range(0..20) {
            0..5 => table.put(&key, b"put"),
            5..12 => table.merge(&key, b"+"),
            12..15 => table.put_with_ttl(&key, b"brief", Duration::from_secs(1)),
            15..17 => table.delete(&key),
            17 => table.delete_range([number]..[number + 4]),
            _ => db.flush(),
        };
        done.unwrap();
    }
}

type Bounds = (Bound<&'static [u8]>, Bound<&'static [u8]>);

/// Bounds of all kinds: some have no key between them, and in some the lower bound is above the
/// upper one.
fn bounds() -> Vec<Bounds> {
    let keys: [&'static [u8]; 4] = [&[3], &[17], &[17, 0], &[KEYS]];
    let at_keys = keys.map(|key| [Included(key), Excluded(key)]);
    let mut ends = vec![Unbounded];
    ends.extend(at_keys.into_iter().flatten());
    let mut bounds = Vec::new();
    for &lower in &ends {
        bounds.extend(ends.iter().map(|&upper| (lower, upper)));
    }
    bounds
}

fn owned(entry: Result<Entry>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = entry.unwrap();
    (key.to_vec(), value.to_vec())
}

/// Asserts that the reads of `reader` return what the table had at the reader's instant: `then`, or
/// the requested part of it.
fn assert_reads(reader: &dyn TableReader, then: &Content) {
    let numbers: Vec<[u8; 1]> = (0..=KEYS).map(|number| [number]).collect();
    let keys: Vec<&[u8]> = numbers.iter().map(|key| &key[..]).collect();
    let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| then.get(*key).cloned()).collect();
    let bytes = |values: Vec<Option<Value>>| -> Vec<Option<Vec<u8>>> {
        let values = values.into_iter();
        values.map(|value| value.map(|v| v.to_vec())).collect()
    };
    let one_by_one: Vec<_> = keys.iter().map(|key| reader.get(key).unwrap()).collect();
    assert_eq!(bytes(one_by_one), expected);
    let never = |_: &FoundSoFar<'_>| false;
    let to_the_end = reader.get_many_until(&keys, &never).unwrap();
    assert_eq!(bytes(to_the_end), expected);
    for (lower, upper) in bounds() {
        let is_in = |key: &[u8]| RangeBounds::<[u8]>::contains(&(lower, upper), key);
        let within = then.iter().filter(|(key, _)| is_in(key));
        let within: Vec<_> = within.map(|(key, v)| (key.clone(), v.clone())).collect();
        for cache in [Cache::Fill, Cache::Bypass] {
            let _at = FailedAt(format!("{lower:?} to {upper:?}, {cache:?}"));
            let range = || reader.range(lower, upper, cache).unwrap();
            let forwards: Vec<_> = range().map(owned).collect();
            assert_eq!(forwards, within);
            let backwards: Vec<_> = range().rev().map(owned).collect();
            assert!(backwards.iter().rev().eq(&within), "{backwards:?}");
            let (mut both, mut front, mut back) = (range(), Vec::new(), Vec::new());
            while let Some(entry) = both.next() {
                front.push(owned(entry));
                back.extend(both.next_back().map(owned));
            }
            front.extend(back.into_iter().rev());
            assert_eq!(front, within);
        }
    }
}

#[test]
fn a_view_a_snapshot_a_detached_table_and_a_transaction_of_one_instant_read_the_same() {
    let test = "a_view_a_snapshot_a_detached_table_and_a_transaction_of_one_instant_read_the_same";
    for_seeds(test, 4, |seed| {
        let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1_000));
        let options = clocked(&mem, &clock);
        let (db, keyspace, table) = open(options, merging("append"));
        let mut rng = rng(seed);
        // Values with a TTL from the first round have expired at the instant of the readers; those from
        // the second have not.
        for _ in 0..2 {
            change(&db, &table, &mut rng);
            clock.advance_ms(600);
        }
        keyspace.create_snapshot("s").unwrap();
        let (view, transaction) = (db.view(), db.begin());
        let then = content(table.range::<&[u8], _>(..)).unwrap();
        clock.advance_ms(600);
        change(&db, &table, &mut rng);
        let now = content(table.range::<&[u8], _>(..)).unwrap();
        assert_ne!(now, then, "nothing has changed since the instant");
        let snapshot = keyspace.snapshot("s").unwrap().table("users").unwrap();
        let pinned = snapshot.pin().unwrap();
        let options = DetachedOptions {
            cache_bytes: 1 << 20,
            disk: Arc::new(mem.clone()),
            ..DetachedOptions::default()
        };
        let detached = DetachedTable::open(pinned.description(), options).unwrap();
        let (live, own) = ((&view, &table), (&transaction, &table));
        let readers: [(&str, &dyn TableReader); 4] = [
            ("view", &live),
            ("snapshot", &snapshot),
            ("detached table", &detached),
            ("transaction", &own),
        ];
        for (name, reader) in readers {
            let _at = FailedAt(name.to_string());
            assert_eq!(reader.read_time_ms(), 2_200);
            assert_reads(reader, &then);
        }
    });
}

#[test]
fn a_transaction_reads_its_own_writes_on_top() {
    let (db, _, table) = open(manual(&MemDisk::new()), TableOptions::default());
    table.put(b"a", b"below").unwrap();
    table.put(b"b", b"below").unwrap();
    let mut transaction = db.begin();
    transaction.delete(&table, b"a").unwrap();
    transaction.put(&table, b"c", b"own").unwrap();
    let own = (&transaction, &table);
    let reader: &dyn TableReader = &own;
    let found = [b"a", b"b", b"c"].map(|key| reader.get(key).unwrap());
    let found: Vec<_> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, [None, Some(&b"below"[..]), Some(&b"own"[..])]);
    let entries = reader.range(Unbounded, Unbounded, Cache::Fill).unwrap();
    let keys: Vec<_> = entries.map(|entry| owned(entry).0).collect();
    assert_eq!(keys, [b"b", b"c"]);
}

#[test]
fn a_transaction_refuses_a_table_of_another_database() {
    let (db, _, _) = open(manual(&MemDisk::new()), TableOptions::default());
    let (_other, _, table) = open(manual(&MemDisk::new()), TableOptions::default());
    let transaction = db.begin();
    let foreign = (&transaction, &table);
    let reader: &dyn TableReader = &foreign;
    let range = reader.range(Unbounded, Unbounded, Cache::Fill).map(drop);
    for refused in [range, reader.get(b"a").map(drop)] {
        assert_is!(refused, Err(Error::InvalidRequest(_)));
    }
}

#[test]
fn a_range_leaves_blocks_in_the_cache_only_if_it_fills_the_cache() {
    // Each reader has a database of its own, whose cache is empty.
    for at in 0..3 {
        let (db, keyspace, table) = open(manual(&MemDisk::new()), TableOptions::default());
        for number in 0..100_u8 {
            table.put(&[number], &[number; 100]).unwrap();
        }
        db.flush().unwrap();
        keyspace.create_snapshot("s").unwrap();
        let snapshot = keyspace.snapshot("s").unwrap().table("users").unwrap();
        let (view, transaction) = (db.view(), db.begin());
        let (live, own) = ((&view, &table), (&transaction, &table));
        let readers: [&dyn TableReader; 3] = [&live, &snapshot, &own];
        let count = |cache| {
            let entries = readers[at].range(Unbounded, Unbounded, cache).unwrap();
            entries.count()
        };
        let cached_bytes = || db.stats().cache_bytes;
        assert_eq!((count(Cache::Bypass), cached_bytes()), (100, 0));
        assert_eq!(count(Cache::Fill), 100);
        assert!(cached_bytes() > 0, "{:?}", readers[at]);
    }
}
