//! Scans, compared with a simple model.

use ebb_model::key::{DecodedKey, PARTITIONS_START, PartitionKey};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
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

/// Computes the expected result from all entries.
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
                if random.random_bool(0.3) {
                    assert!(scan.has_next_partition().unwrap());
                }
                let start = scan.next_partition().unwrap().unwrap();
                assert_eq!(start.key, partition.key);
                assert_eq!(start.header, partition.header);
                assert_eq!(start.header_in_range, partition.header_in_range);
                // Sometimes the scan stops before the end of a partition, and sometimes it reads
                // beyond the end.
                for at in 0..random.random_range(0..partition.rows.len() + 2) {
                    let row = scan.next_row().unwrap();
                    if let Some(row) = &row {
                        let place = DecodedKey::read(&row.key).unwrap().place;
                        assert_eq!(place, Place::Row(row.clustering()));
                    }
                    let entry = row.map(|row| (row.key, row.operand));
                    assert_eq!(entry.as_ref(), partition.rows.get(at));
                }
            }
            assert!(!scan.has_next_partition().unwrap());
            assert!(scan.next_partition().unwrap().is_none());
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
