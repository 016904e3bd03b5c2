use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::key::{ReadTime, SeqNo, Version};
use crate::read::Fold;
use crate::simulation::MemDisk;
use crate::{
    CompactionOptions, CompactionPicker, Compression, Db, Maintenance, Options, Pick,
    SsTableOptions, Table, TableOptions, TableShape,
};

const OPERAND_BYTES: usize = FOLDED_BYTES_MAX / 2;
const OPERANDS: u64 = 12;
const ALL_BYTES: usize = OPERAND_BYTES * OPERANDS as usize;

/// A merge operator that concatenates operands. An operand that begins with "!" deletes everything
/// older, as a deletion in a value of CQL does.
#[derive(Debug, Clone, Default)]
struct Deleting {
    /// The length of the longest value that the operator has made.
    longest: Arc<AtomicUsize>,
}

impl MergeOperator for Deleting {
    fn name(&self) -> &str {
        "deleting"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        let merged = if newer.starts_with(b"!") {
            newer.to_vec()
        } else {
            [older, newer].concat()
        };
        self.longest.fetch_max(merged.len(), Ordering::Relaxed);
        Ok(merged)
    }
}

/// A picker that merges all runs of a table into one.
#[derive(Debug)]
struct WholeTable;

impl CompactionPicker for WholeTable {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        (table.runs.len() > 1).then(|| Pick::merge(table.runs))
    }
}

fn merger() -> Merger {
    let operators = MergeOperators::none().with(Deleting::default());
    Merger::new("app.t".into(), Some("deleting"), &operators)
}

/// Asserts that reads of key "k" fail, that their errors name it, and that its neighbours can be
/// read.
fn only_k_fails(table: &Table) {
    let names_k = |error: &Error| matches!(error, Error::Merge { key, .. } if key == b"k");
    assert!(names_k(&table.get(b"k").unwrap_err()));
    for other in [b"a", b"z"] {
        assert_eq!(table.get(other).unwrap().unwrap(), "put");
    }
    assert_eq!(table.range(.."k").map(Result::unwrap).count(), 1);
    let upwards = table.range::<&[u8], _>(..).find_map(Result::err);
    assert!(names_k(&upwards.unwrap()));
    let downwards = table.range::<&[u8], _>(..).rev().find_map(Result::err);
    assert!(names_k(&downwards.unwrap()));
}

/// Asserts that key "k" has the value "!new", and that every way to read finds it.
fn all_are_there(table: &Table) {
    assert_eq!(table.get(b"k").unwrap().unwrap(), "!new");
    let rows = || table.range::<&[u8], _>(..).map(Result::unwrap);
    let expected = ["put", "!new", "put"];
    assert!(rows().map(|(_, value)| value).eq(expected));
    assert!(rows().rev().map(|(_, value)| value).eq(expected));
}

/// Regression: if the operands of a key made a value of more than the longest length, all scans of
/// the table failed. A deletion of the key did not help: the operands older than the deletion were
/// folded first, and their result was refused before the deletion was applied. No merge ever
/// removed them.
#[test]
fn a_deletion_heals_a_key_whose_operands_make_too_long_a_value() {
    let operator = Deleting::default();
    let longest = operator.longest.clone();
    let options = Options {
        disk: Arc::new(MemDisk::new()),
        maintenance: Maintenance::Manual,
        merge_operators: MergeOperators::none().with(operator),
        compaction: CompactionOptions {
            picker: Arc::new(WholeTable),
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open("/db", options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let uncompressed = SsTableOptions {
        compression: Compression::None,
        ..SsTableOptions::default()
    };
    let options = TableOptions {
        merge_operator: Some("deleting".into()),
        sstable: uncompressed,
    };
    // In the memtable, in a run for each operand, and in one run.
    for (name, flushes, merges) in [("a", false, false), ("b", true, false), ("c", true, true)] {
        let table = keyspace.table(name, options.clone()).unwrap();
        let stored = || {
            let tables = db.stats().tables.into_iter();
            let runs = tables.filter(|t| t.name == name).flat_map(|t| t.runs);
            runs.map(|run| run.bytes as usize).sum::<usize>()
        };
        table.put(b"a", b"put").unwrap();
        table.put(b"z", b"put").unwrap();
        table.merge(b"k", b"old").unwrap();
        // All operands are above this tombstone.
        table.delete_range("k".."l").unwrap();
        for value in 1..=OPERANDS as u8 {
            table.merge(b"k", &vec![value; OPERAND_BYTES]).unwrap();
            if flushes {
                db.flush().unwrap();
            }
        }
        only_k_fails(&table);
        if merges {
            db.compact().unwrap();
            only_k_fails(&table);
            let stored = stored();
            assert!(stored >= ALL_BYTES, "operands are lost: {stored} bytes");
            assert!(stored < ALL_BYTES + OPERAND_BYTES, "{stored} bytes");
        }
        let before = db.view();
        table.merge(b"k", b"!new").unwrap();
        all_are_there(&table);
        assert!(before.get(&table, b"k").is_err());
        drop(before);
        db.flush().unwrap();
        all_are_there(&table);
        if flushes {
            db.compact().unwrap();
            all_are_there(&table);
            let stored = stored();
            assert!(stored < OPERAND_BYTES, "{stored} bytes are left");
        }
    }
    let longest = longest.load(Ordering::Relaxed);
    assert!(
        longest <= 2 * FOLDED_BYTES_MAX,
        "a value of {longest} bytes"
    );
}

/// A merge operator that keeps the newest operand, and cannot merge small letters with capital ones. An
/// operand that begins with "!" deletes everything older, of both kinds.
#[derive(Debug)]
struct TwoKinds;

impl MergeOperator for TwoKinds {
    fn name(&self) -> &str {
        "two-kinds"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        if newer.starts_with(b"!") {
            Ok(newer.to_vec())
        } else if older.starts_with(b"!") {
            Ok([&b"!"[..], newer].concat())
        } else if older[0].is_ascii_lowercase() == newer[0].is_ascii_lowercase() {
            Ok(newer.to_vec())
        } else {
            Err("two kinds".to_owned())
        }
    }
}

/// Regression: operands that cannot be merged with each other made a key unreadable. A later
/// deletion of the key did not always help: neighbours were first merged in pairs, and the fold
/// failed if one of the pairs could not be merged, although the deletion hid both of its operands.
#[test]
fn a_deletion_heals_a_key_whose_operands_cannot_be_merged() {
    let operators = MergeOperators::none().with(TwoKinds);
    let merger = Merger::new("app.t".into(), Some("two-kinds"), &operators);
    let one = Bytes::from_static;
    // Short operands make one group, and long ones several.
    for capital in [one(b"A"), Bytes::from(vec![b'A'; OPERAND_BYTES])] {
        for (before, after, olds) in [(0, 1, 1), (0, 2, 3), (1, 2, 1), (3, 4, 2), (2, 9, 5)] {
            let mut operands = vec![one(b"Z"); before];
            operands.push(one(b"!"));
            operands.resize(operands.len() + after, capital.clone());
            operands.resize(operands.len() + olds, one(b"a"));
            let folded = merger.fold(b"k", &operands, None).unwrap();
            let expected = if before == 0 { "!" } else { "!Z" };
            assert_eq!(folded, expected, "{before} {after} {olds}");
            operands.remove(before);
            let error = merger.fold(b"k", &operands, None).unwrap_err();
            assert!(error.to_string().contains("two kinds"), "{error}");
        }
    }
}

/// A merge operator that keeps the longest operand, and counts the bytes that it copies.
#[derive(Debug, Clone, Default)]
struct Longest {
    copied_bytes: Arc<AtomicUsize>,
}

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        "longest"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        let longer = if older.len() > newer.len() {
            older
        } else {
            newer
        };
        self.copied_bytes.fetch_add(longer.len(), Ordering::Relaxed);
        Ok(longer.to_vec())
    }
}

/// Regression: a long result was copied several times for each group of older operands.
#[test]
fn a_long_result_is_copied_once_for_each_group_of_older_operands() {
    const GROUPS: usize = 8;
    const IN_GROUP: usize = 16;
    let operator = Longest::default();
    let copied_bytes = operator.copied_bytes.clone();
    let operators = MergeOperators::none().with(operator);
    let merger = Merger::new("app.t".into(), Some("longest"), &operators);
    // A group of these is a quarter of the longest result.
    let short = Bytes::from(vec![7; FOLDED_BYTES_MAX / 4 / IN_GROUP]);
    let mut operands = vec![Bytes::from(vec![7; FOLDED_BYTES_MAX])];
    operands.resize(1 + GROUPS * IN_GROUP, short);
    let folded = merger.fold(b"k", &operands, None).unwrap();
    assert_eq!(folded.len(), FOLDED_BYTES_MAX);
    // The first group has no result yet: its longest operand is copied with each level of pairs.
    let copied_bytes = copied_bytes.load(Ordering::Relaxed);
    assert!(
        copied_bytes < 2 * GROUPS * FOLDED_BYTES_MAX,
        "{copied_bytes} bytes"
    );
}

/// Regression: a reader held all operands of a key in memory at once, however long.
#[test]
fn memory_of_a_reader_for_the_operands_of_one_key_is_bounded() {
    let merger = merger();
    let value = vec![7; OPERAND_BYTES];
    let operand = |seq: SeqNo, value: &[u8]| Version {
        seq,
        kind: Kind::Merge,
        value: Bytes::copy_from_slice(value),
    };
    let mut fold = Fold::new(ReadTime::At(0));
    assert!(!fold.take_bounded(operand(SeqNo(OPERANDS + 1), b"!"), b"k", &merger));
    for seq in (1..=OPERANDS).rev() {
        assert!(!fold.take_bounded(operand(SeqNo(seq), &value), b"k", &merger));
        assert!(fold.operands() <= 3, "all are held");
    }
    assert_eq!(fold.finish(b"k", &merger).unwrap().unwrap(), "!");
}
