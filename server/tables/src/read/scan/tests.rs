//! Scans, compared with a simple model.

use ebb_model::key::{DecodedKey, PARTITIONS_START, PartitionKey};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Cache, Db, Maintenance, Options};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::read::Unpaced;
use crate::read::tests::schema;

/// Returns stored headers (deletions and static columns) and rows of a few partitions, some without
/// a header and some without rows.
fn stored(random: &mut ChaCha8Rng) -> Vec<Entry> {
    let mut stored = Vec::new();
    for k in 0..random.random_range(0..6_i32) {
        let prefix = PartitionKey::new(&[&k.to_be_bytes()]).unwrap().prefix();
        if random.random_bool(0.6) {
            stored.push((header_key(&prefix), format!("header {k}")));
        }
        for c in 0..random.random_range(0..5_u8) {
            let key = [&prefix[..], &[ROW, c]].concat();
            stored.push((key, format!("row {k} {c}")));
        }
    }
    stored.sort();
    let entry = |(key, operand): (Vec<u8>, String)| -> Entry { (key.into(), operand.into()) };
    stored.into_iter().map(entry).collect()
}

/// Returns a random key at which a range may begin or end.
fn bound(stored: &[Entry], random: &mut ChaCha8Rng) -> Vec<u8> {
    let Some((key, _)) = stored.get(random.random_range(0..stored.len() + 1)) else {
        return PARTITIONS_START.to_vec();
    };
    let prefix = partition_prefix(key).unwrap();
    match random.random_range(0..5) {
        0 => key.to_vec(),
        1 => [&key[..], &[0]].concat(),
        2 => prefix.to_vec(),
        3 => [prefix, &[ROW]].concat(),
        _ => [prefix, &[ROW + 1]].concat(),
    }
}

/// A partition of a range, with its rows that lie in the range.
struct Expected {
    key: Bytes,
    header: Option<Bytes>,
    header_in_range: bool,
    rows: Vec<Entry>,
}

/// Computes the expected result of a scan from `from` to before `to`, from all entries.
fn expected(stored: &[Entry], from: &[u8], to: Option<&[u8]>) -> Vec<Expected> {
    let is_in_range = |key: &[u8]| *key >= *from && to.is_none_or(|to| *key < *to);
    let mut partitions: Vec<Expected> = Vec::new();
    for (key, operand) in stored.iter().filter(|entry| is_in_range(&entry.0)) {
        let prefix = partition_prefix(key).unwrap();
        let header_key = header_key(prefix);
        let is_header = key[..] == header_key[..];
        if (partitions.last()).is_none_or(|last| !last.key.starts_with(prefix)) {
            let header = stored.iter().find(|entry| entry.0[..] == header_key[..]);
            partitions.push(Expected {
                key: key.clone(),
                header: header.map(|entry| entry.1.clone()),
                header_in_range: is_header,
                rows: Vec::new(),
            });
        }
        if !is_header {
            let rows = &mut partitions.last_mut().unwrap().rows;
            rows.push((key.clone(), operand.clone()));
        }
    }
    partitions
}

#[test]
fn a_scan_gives_the_partitions_and_rows_of_a_simple_model() {
    let test = "a_scan_gives_the_partitions_and_rows_of_a_simple_model";
    let schema = schema();
    for_seeds(test, 100, |seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let stored = stored(&mut random);
        for _ in 0..20 {
            let from = bound(&stored, &mut random);
            let to = (random.random_bool(0.7)).then(|| bound(&stored, &mut random));
            let source = Source::Memory(&stored);
            let mut scan = RowScan::open(source, &schema, &from, to.as_deref()).unwrap();
            for partition in expected(&stored, &from, to.as_deref()) {
                let start = if random.random_bool(0.3) {
                    let PartitionStep::Start(start) = scan.search_partition().unwrap() else {
                        panic!("the range has another partition");
                    };
                    start
                } else {
                    scan.next_partition().unwrap().unwrap()
                };
                assert_eq!(start.key, partition.key);
                assert_eq!(start.header, partition.header);
                assert_eq!(start.header_in_range, partition.header_in_range);
                // Sometimes the scan stops before the end of a partition, and sometimes it reads
                // beyond the end.
                for at in 0..random.random_range(0..partition.rows.len() + 2) {
                    let row = if random.random_bool(0.3) {
                        match scan.search_row().unwrap() {
                            RowStep::Row(row) => Some(row),
                            RowStep::Done => None,
                            step => panic!("{step:?} in memory, where all keys have entries"),
                        }
                    } else {
                        scan.next_row().unwrap()
                    };
                    if let Some(row) = &row {
                        let place = DecodedKey::read(&row.key).unwrap().place;
                        assert_eq!(place, Place::Row(row.clustering()));
                    }
                    let entry = row.map(|row| (row.key, row.operand));
                    assert_eq!(entry.as_ref(), partition.rows.get(at));
                }
            }
            assert!(scan.next_partition().unwrap().is_none());
            let end = scan.search_partition().unwrap();
            assert!(matches!(end, PartitionStep::Done));
            assert!(scan.next_row().unwrap().is_none());
        }
    });
}

#[test]
fn a_key_that_is_neither_a_header_nor_a_row_is_damage() {
    let schema = schema();
    let prefix = PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap().prefix();
    let entry = |place: u8| -> Entry {
        let key = [&prefix[..], &[place]].concat();
        (key.into(), Bytes::new())
    };
    let stored = [entry(ROW), entry(ROW + 1)];
    let source = Source::Memory(&stored);
    let mut scan = RowScan::open(source, &schema, PARTITIONS_START, None).unwrap();
    assert!(scan.next_partition().unwrap().is_some());
    assert!(scan.next_row().unwrap().is_some());
    let Err(TableError::Damaged(damage)) = scan.next_row() else {
        panic!("the place of the second key is unknown");
    };
    assert_eq!(damage.key[..], stored[1].0[..]);
}

/// A search for the next row passes only keys behind the partition. It must return `Done`: with a step
/// `Passed` and such a key, the caller would take the partition for unfinished.
#[test]
fn a_partition_ends_when_a_search_for_its_rows_passes_keys_behind_it() {
    let options = Options {
        disk: std::sync::Arc::new(MemDisk::new()),
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    let db = Db::open("/db", options).unwrap();
    let table = db.keyspace("app").unwrap();
    let table = table.table("t", Default::default()).unwrap();
    let header = |k: i32| PartitionKey::new(&[&k.to_be_bytes()]).unwrap().header_key();
    let mut headers: Vec<Vec<u8>> = (0..100).map(header).collect();
    headers.sort();
    for key in &headers {
        table.put(key, b"header").unwrap();
    }
    for key in &headers[1..99] {
        table.delete(key).unwrap();
    }
    let view = db.view();
    let reader = (&view, &table);
    let source = Source::Stored(&reader, Cache::Fill, &Unpaced);
    let schema = schema();
    let mut scan = RowScan::open(source, &schema, PARTITIONS_START, None).unwrap();
    let start = scan.next_partition().unwrap().unwrap();
    assert_eq!(start.key, headers[0]);
    let row = scan.search_row().unwrap();
    // The search has passed the keys with the numbers 1 to 32.
    assert!(matches!(row, RowStep::Done));
    let mut step = || scan.search_partition().unwrap();
    for last in [64, 96] {
        assert!(matches!(step(), PartitionStep::Passed(Some(key)) if key == headers[last]));
    }
    assert!(matches!(step(), PartitionStep::Start(start) if start.key == headers[99]));
    assert!(matches!(step(), PartitionStep::Done));
}
