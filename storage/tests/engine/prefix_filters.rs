//! Scans within one prefix: they find all its keys, and skip runs whose filters exclude the prefix.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::common::{
    Content, DIR, Rng, content, for_seeds, manual, one_table, rng, writer_options,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Error, FilterPrefix, MergeOperator, MergeOperators, Options, SortedWriter,
    SortedWriterOptions, SsTableOptions, Table, TableOptions,
};
use rand::RngExt;

/// A merge operator whose prefixes end with the first '/'.
#[derive(Debug)]
struct UpToSlash;

impl MergeOperator for UpToSlash {
    fn name(&self) -> &str {
        "up-to-slash"
    }

    fn merge(&self, _: &[u8], _: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        Ok(newer.to_vec())
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let slash = key.iter().position(|byte| *byte == b'/')?;
        Some(&key[..=slash])
    }
}

/// Layout options with small blocks and a large filter, so that the index of thousands of keys has
/// several partitions.
fn sstable(filter_prefix: Option<FilterPrefix>) -> SsTableOptions {
    SsTableOptions {
        block_bytes: 128,
        filter_bits_per_key: 64,
        filter_prefix,
        ..SsTableOptions::default()
    }
}

/// A file size, in bytes, that is so large that each run is a single file.
const LARGE: usize = 64 << 20;

fn options(mem: &MemDisk, file_bytes: usize) -> Options {
    Options {
        merge_operators: MergeOperators::default().with(UpToSlash),
        memtable_bytes: LARGE,
        file_bytes: file_bytes as u64,
        ..manual(mem)
    }
}

fn open(mem: &MemDisk, filter_prefix: Option<FilterPrefix>, file_bytes: usize) -> (Db, Table) {
    let table = TableOptions {
        sstable: sstable(filter_prefix),
        merge_operator: Some("up-to-slash".into()),
    };
    let (db, _, table) = one_table::open(options(mem, file_bytes), table);
    (db, table)
}

/// The number of prefixes in the table. They are even numbers; odd ones are not in the table.
const PREFIXES: u32 = 20_000;

/// Returns the key of a row: a number of six digits, and then, except for row 0, a slash and the
/// row.
fn key(number: u32, row: u32) -> Vec<u8> {
    match row {
        0 => format!("{number:06}").into_bytes(),
        _ => format!("{number:06}/{row}").into_bytes(),
    }
}

/// Creates a table with four runs, each with a quarter of all prefixes, and one to three rows for
/// each prefix. Neighbouring prefixes mostly differ in the last digit alone, so the key that
/// separates two partitions of the index is often a bare prefix.
fn filled(
    mem: &MemDisk,
    of: FilterPrefix,
    file_bytes: usize,
    rng: &mut Rng,
) -> (Db, Table, Content) {
    let (db, table) = open(mem, Some(of), file_bytes);
    let pause = db.pause_merges();
    let mut all = Content::new();
    for run in 0..4 {
        for number in (0..PREFIXES).filter(|number| number / 5 % 4 == run) {
            for row in rng.random_range(0..2)..rng.random_range(2..4) {
                let value = format!("{run}").into_bytes();
                table.put(&key(number * 2, row), &value).unwrap();
                all.insert(key(number * 2, row), value);
            }
        }
        db.flush().unwrap();
    }
    drop(pause);
    (db, table, all)
}

/// Reads a range forwards and backwards, and compares the results with `all`, the expected content
/// of the table.
fn check(table: &Table, all: &Content, (lower, upper): (Bound<Vec<u8>>, Bound<Vec<u8>>)) {
    let range = || table.range::<Vec<u8>, _>((lower.clone(), upper.clone()));
    let keys = (lower.as_ref(), upper.as_ref());
    let is_empty = match keys {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b) | Bound::Included(b)) => {
            a >= b
        }
        _ => false,
    };
    let expected: Content = if is_empty {
        Content::new()
    } else {
        (all.range::<Vec<u8>, _>(keys))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    assert_eq!(content(range()).unwrap(), expected, "{lower:?} {upper:?}");
    let backward: Result<BTreeMap<_, _>, Error> = range().rev().collect();
    let backward = backward.unwrap().into_iter();
    let backward: Content = backward.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    assert_eq!(backward, expected, "{lower:?} {upper:?}, backwards");
}

/// Searches for all prefixes, because the test does not choose which of them stand at the beginning
/// of a partition of the index.
#[test]
fn every_prefix_is_found_and_most_that_are_not_there_cost_no_search() {
    for of in [FilterPrefix::Bytes(6), FilterPrefix::Operator] {
        let mem = MemDisk::new();
        let (db, table, all) = filled(&mem, of, LARGE, &mut rng(1));
        let prefix = |number: u32| match of {
            FilterPrefix::Bytes(_) => format!("{number:06}").into_bytes(),
            FilterPrefix::Operator => format!("{number:06}/").into_bytes(),
        };
        let mut of_prefix: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for key in all.keys() {
            let len = prefix(0).len();
            if key.len() >= len {
                *of_prefix.entry(key[..len].to_vec()).or_default() += 1;
            }
        }
        for number in 0..2 * PREFIXES {
            let expected = of_prefix.get(&prefix(number)).copied();
            assert_eq!(
                table.prefix(&prefix(number)).count(),
                expected.unwrap_or_default(),
                "{of:?}: {number}"
            );
        }
        db.verify().unwrap();
        let skips = db.stats().prefix_skips;
        // An existing prefix is in one run of four.
        let right = u64::from(2 * PREFIXES * 4 - PREFIXES);
        assert!(skips > right * 99 / 100, "{skips} of {right}");
        assert!(skips <= right);
    }
}

#[test]
fn any_range_finds_what_it_would_without_prefixes() {
    let test = "any_range_finds_what_it_would_without_prefixes";
    for_seeds(test, 6, |seed| {
        let mut rng = rng(seed);
        let of = [
            FilterPrefix::Bytes(5),
            FilterPrefix::Bytes(7),
            FilterPrefix::Operator,
        ];
        let of = of[seed as usize % of.len()];
        let mem = MemDisk::new();
        let (db, table, mut all) =
            filled(&mem, of, [LARGE, 8 << 10][seed as usize / 3 % 2], &mut rng);
        for round in 0..2000 {
            if round == 1000 {
                // Some of it in one run, some in memory, some deleted.
                table.delete_range("003000".."014000").unwrap();
                all.retain(|key, _| !(&b"003000"[..]..&b"014000"[..]).contains(&&key[..]));
                db.compact().unwrap();
                let more = key(3500, 1);
                table.put(&more, b"new").unwrap();
                all.insert(more, b"new".to_vec());
            }
            let number = rng.random_range(0..2 * PREFIXES + 100);
            let other = number + [0, 0, 0, 1, 10][rng.random_range(0..5)];
            let mut bound = |number| {
                let mut key = key(number, rng.random_range(0..5));
                key.extend((0..rng.random_range(0..2)).map(|_| 0));
                match rng.random_range(0..20) {
                    0 => Bound::Unbounded,
                    1..10 => Bound::Included(key),
                    _ => Bound::Excluded(key),
                }
            };
            let (lower, upper) = (bound(number), bound(other));
            if matches!(
                (&lower, &upper),
                (Bound::Unbounded, _) | (_, Bound::Unbounded)
            ) && round % 100 > 0
            {
                continue;
            }
            check(&table, &all, (lower, upper));
        }
    });
}

/// A file records the kind of its prefixes: files with another kind are searched.
#[test]
fn files_with_other_prefixes_or_none_are_searched() {
    let mem = MemDisk::new();
    let (db, table) = open(&mem, Some(FilterPrefix::Operator), LARGE);
    for (name, of, operator) in [
        ("none", None, true),
        ("bytes", Some(FilterPrefix::Bytes(3)), true),
        ("unknown", Some(FilterPrefix::Operator), false),
        ("same", Some(FilterPrefix::Operator), true),
    ] {
        let options = SortedWriterOptions {
            sstable: sstable(of),
            merge_operator: operator.then(|| Arc::new(UpToSlash) as Arc<dyn MergeOperator>),
            ..writer_options(&mem)
        };
        let mut writer = SortedWriter::create("/out", name, options).unwrap();
        writer.put(format!("{name}/1").as_bytes(), b"v").unwrap();
        writer.put(b"z/1", name.as_bytes()).unwrap();
        table.ingest(&writer.finish().unwrap()).unwrap();
        assert_eq!(table.prefix(format!("{name}/").as_bytes()).count(), 1);
    }
    assert_eq!(table.prefix(b"z/").count(), 1);
    let before = db.stats().prefix_skips;
    // Above all first keys and below the last.
    assert_eq!(table.prefix(b"y/").count(), 0);
    assert_eq!(
        db.stats().prefix_skips - before,
        1,
        "only one file can tell"
    );
}

/// Without the merge operator that returns the prefixes, all rows are found. Files that are
/// written meanwhile record that they have no prefixes.
#[test]
fn without_the_operator_all_is_searched() {
    let mem = MemDisk::new();
    let (db, table, all) = filled(&mem, FilterPrefix::Operator, LARGE, &mut rng(2));
    drop((db, table));
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let table = one_table::users(&db);
    table.put(b"000001/1", b"late").unwrap();
    db.flush().unwrap();
    assert_eq!(table.prefix(b"000001/").count(), 1);
    assert_eq!(db.stats().prefix_skips, 0);
    drop((db, table));
    let (_db, table) = open(&mem, Some(FilterPrefix::Operator), LARGE);
    assert_eq!(table.prefix(b"000001/").count(), 1);
    assert_eq!(table.range::<&[u8], _>(..).count(), all.len() + 1);
}

#[test]
fn a_prefix_of_no_bytes_is_refused() {
    let db = Db::open(DIR, manual(&MemDisk::new())).unwrap();
    let table = TableOptions {
        sstable: sstable(Some(FilterPrefix::Bytes(0))),
        ..TableOptions::default()
    };
    let refused = db
        .keyspace("app")
        .unwrap()
        .table("users", table)
        .unwrap_err();
    assert!(refused.to_string().contains("filter_prefix"), "{refused}");
}
