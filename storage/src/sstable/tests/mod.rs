//! Tests of whole tables; tests of a single part are in the module of that
//! part.

mod damage;
mod golden;
mod partitions;
mod read_ahead;
mod round_trip;
mod test_disk;

use super::writer::FinishedTable;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::error::Result;
use crate::key::{Cursor, KeyRange, Kind, RangeTombstone, RangeTombstones, SeqNo, Version};
use test_disk::TestDisk;

/// Versions in their order, as a table should hold them.
type Oracle = BTreeMap<(Vec<u8>, Reverse<u64>), (Kind, Vec<u8>)>;

/// A version: its key, sequence number, kind and value.
type Row = (Vec<u8>, u64, Kind, Vec<u8>);

const FILE: &str = "000007.sst";
const FILE_NUMBER: u64 = 7;
const TABLE_ID: u32 = 3;

/// Runs `check` with a random number generator for each seed of the test.
fn with_rng(test: &str, mut check: impl FnMut(&mut ChaCha8Rng)) {
    for_seeds(test, 1, |seed| {
        check(&mut ChaCha8Rng::seed_from_u64(seed));
    });
}

/// Returns a key of few different bytes: such keys share prefixes, and are often neighbours or
/// empty.
fn random_key(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let len = rng.random_range(0..12);
    (0..len)
        .map(|_| *b"ab\x00\xff".get(rng.random_range(0..4)).unwrap())
        .collect()
}

fn random_value(rng: &mut ChaCha8Rng, len_max: usize) -> Vec<u8> {
    let len = rng.random_range(0..=len_max);
    let noisy = rng.random_bool(0.5);
    (0..len)
        .map(|i| if noisy { rng.random() } else { i as u8 / 16 })
        .collect()
}

fn random_oracle(rng: &mut ChaCha8Rng, versions: usize, value_len_max: usize) -> Oracle {
    let mut oracle = Oracle::new();
    for _ in 0..versions {
        let seq = rng.random_range(1..200);
        let kind = [
            Kind::Put,
            Kind::Put,
            Kind::Delete,
            Kind::Merge,
            Kind::ExpiringPut,
        ][rng.random_range(0..5)];
        let value = match kind {
            Kind::Put | Kind::Merge => random_value(rng, value_len_max),
            Kind::Delete => Vec::new(),
            Kind::ExpiringPut => [vec![7; 8], random_value(rng, value_len_max)].concat(),
        };
        oracle.insert((random_key(rng), Reverse(seq)), (kind, value));
    }
    oracle
}

fn uncompressed() -> SsTableOptions {
    SsTableOptions {
        compression: Compression::None,
        ..Default::default()
    }
}

/// Begins the file [`FILE`].
fn writer(disk: &TestDisk, options: SsTableOptions) -> SsTableWriter {
    let ids = (FILE_NUMBER, TABLE_ID);
    SsTableWriter::create(disk, Path::new(FILE), ids, options).unwrap()
}

fn write(disk: &TestDisk, oracle: &Oracle, options: SsTableOptions) -> FinishedTable {
    write_with(disk, oracle, RangeTombstones::default(), options)
}

/// A range tombstone: start (included), end (excluded; `None` if the range has no end), sequence
/// number.
type Tombstone = (&'static [u8], Option<&'static [u8]>, u64);

fn tombstones(list: &[Tombstone]) -> RangeTombstones {
    let tombstone = |&(start, end, seq): &Tombstone| RangeTombstone {
        range: KeyRange {
            start: Bytes::from_static(start),
            end: end.map(Bytes::from_static),
        },
        seq: SeqNo(seq),
    };
    RangeTombstones::build(list.iter().map(tombstone), None)
}

fn write_with(
    disk: &TestDisk,
    oracle: &Oracle,
    tombstones: RangeTombstones,
    options: SsTableOptions,
) -> FinishedTable {
    let mut writer = writer(disk, options.clone());
    if options != SsTableOptions::default() {
        // Of one data block, or of eight.
        let partition_bytes = [100, 9][options.restart_interval as usize % 2];
        writer.set_partition_bytes(partition_bytes);
    }
    for ((key, Reverse(seq)), (kind, value)) in oracle {
        writer.add(key, SeqNo(*seq), *kind, value).unwrap();
        assert_eq!(writer.last_key(), Some(key.as_slice()));
    }
    writer.set_range_tombstones(tombstones);
    writer.finish().unwrap()
}

/// Writes a table on a disk of its own, and opens it.
fn written(oracle: &Oracle, options: SsTableOptions, cache_bytes: u64) -> Arc<SsTable> {
    let disk = TestDisk::default();
    write(&disk, oracle, options);
    open(&disk, cache_bytes).unwrap()
}

fn open(disk: &TestDisk, cache_bytes: u64) -> Result<Arc<SsTable>> {
    let cache = Arc::new(BlockCache::new(cache_bytes));
    SsTable::open(disk, Path::new(FILE), FILE_NUMBER, cache)
}

/// Returns the newest version of a key that is not above the sequence number `seq`.
fn get(table: &SsTable, key: &[u8], seq: u64) -> Result<Option<Version>> {
    Ok(versions(table, key, seq, 1)?.pop())
}

/// Looks a key up; returns its versions up to the sequence number `seq`, newest first: at most
/// `wanted`, and none behind the first that is no merge operand.
fn versions(table: &SsTable, key: &[u8], seq: u64, wanted: usize) -> Result<Vec<Version>> {
    let (hash, mut reads) = (key_hash(key), ReadCounters::default());
    let mut taken = Vec::new();
    let is_enough = table.versions(key, hash, SeqNo(seq), &mut reads, |version| {
        taken.push(version);
        taken.len() == wanted
    })?;
    assert_eq!(is_enough, taken.len() == wanted);
    Ok(taken)
}

fn expected_versions(oracle: &Oracle, key: &[u8], seq: u64, wanted: usize) -> Vec<Version> {
    let older = std::iter::successors(expected_version(oracle, key, seq), |version| {
        let below = (version.kind == Kind::Merge).then(|| version.seq.before());
        expected_version(oracle, key, below??.0)
    });
    older.take(wanted).collect()
}

/// Returns the expected result of `get`.
fn expected_version(oracle: &Oracle, key: &[u8], seq: u64) -> Option<Version> {
    let ((found, Reverse(seq)), (kind, value)) =
        oracle.range((key.to_vec(), Reverse(seq))..).next()?;
    (found == key).then(|| Version {
        seq: SeqNo(*seq),
        kind: *kind,
        value: value.clone().into(),
    })
}

/// Returns the row under a cursor; `None` if the cursor stands on no version.
fn row(cursor: &SsTableCursor) -> Option<Row> {
    cursor.valid().then(|| {
        (
            cursor.key().to_vec(),
            cursor.seq().0,
            cursor.kind(),
            cursor.value().to_vec(),
        )
    })
}

fn oracle_rows(oracle: &Oracle) -> Vec<Row> {
    let rows = oracle.iter();
    rows.map(|((key, Reverse(seq)), (kind, value))| (key.clone(), *seq, *kind, value.clone()))
        .collect()
}

/// Returns all rows, read forward without the block cache.
fn scan(table: &Arc<SsTable>) -> Result<Vec<Row>> {
    let mut cursor = table.cursor(false);
    let mut rows = Vec::new();
    cursor.seek_to_first()?;
    while let Some(row) = row(&cursor) {
        rows.push(row);
        cursor.next()?;
    }
    Ok(rows)
}

/// Returns all rows in ascending order, read backwards with the block cache.
fn scan_back(table: &Arc<SsTable>) -> Result<Vec<Row>> {
    let mut cursor = table.cursor(true);
    let mut rows = Vec::new();
    cursor.seek_to_last()?;
    while let Some(row) = row(&cursor) {
        rows.push(row);
        cursor.prev()?;
    }
    rows.reverse();
    Ok(rows)
}
