//! The keys that a commit writes, in the form in which commits are compared.

use std::sync::Arc;

use super::{Op, OpReader};
use crate::key::{KeyRange, Kind, SeqNo, TableId};

/// A key with the id of its table in front (8 bytes, big-endian), so that the keys of all tables
/// have one order.
pub(crate) type TableKey = Arc<[u8]>;

const TABLE_BYTES: usize = 8;

pub(crate) fn table_key(table: TableId, key: &[u8]) -> TableKey {
    [&u64::from(table.0).to_be_bytes(), key].concat().into()
}

pub(crate) fn split_table_key(key: &[u8]) -> (TableId, &[u8]) {
    let (table, key) = key.split_at(TABLE_BYTES);
    let table = u64::from_be_bytes(table.try_into().expect("eight bytes"));
    (TableId(table as u32), key)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) key: TableKey,
    /// Whether all changes of the key are merges. Merges of different commits do not conflict,
    /// because they apply in the order of the commits.
    pub(crate) merges: bool,
}

/// Keys of one table from `start` to before `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRange {
    pub(crate) start: TableKey,
    pub(crate) end: TableKey,
}

impl TableRange {
    pub(crate) fn new(table: TableId, range: &KeyRange) -> Self {
        let after_table = || (u64::from(table.0) + 1).to_be_bytes().as_slice().into();
        let end = range.end.as_ref().map(|end| table_key(table, end));
        Self {
            start: table_key(table, &range.start),
            end: end.unwrap_or_else(after_table),
        }
    }

    pub(crate) fn contains(&self, key: &TableKey) -> bool {
        self.start <= *key && *key < self.end
    }

    /// Returns the first key that is in both ranges; `None` if the ranges do not overlap.
    pub(crate) fn overlap(&self, other: &Self) -> Option<TableKey> {
        let start = (&self.start).max(&other.start);
        (start < (&self.end).min(&other.end)).then(|| start.clone())
    }
}

/// The keys that a commit writes, or the keys that a transaction guards: a commit that wrote one of
/// them after the transaction began makes the transaction fail, as if the transaction wrote the
/// key, too.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct WriteSet {
    /// The single keys, ascending, each once.
    points: Vec<Point>,
    ranges: Vec<TableRange>,
}

impl WriteSet {
    /// Returns the keys that the operations of a batch write.
    pub(crate) fn of(payload: &[u8]) -> Self {
        let mut write_set = Self::default();
        for item in OpReader::new(payload, SeqNo::ZERO) {
            match item.expect("what a batch encodes reads back").1 {
                Op::Write {
                    table, key, kind, ..
                } => write_set.points.push(Point {
                    key: table_key(table, key),
                    merges: kind == Kind::Merge,
                }),
                Op::RangeDelete { table, range } => {
                    write_set.ranges.push(TableRange::new(table, &range));
                }
                Op::Ingest { .. } | Op::Snapshot(_) => {}
            }
        }
        write_set.settle();
        write_set
    }

    /// Returns a write set in which these keys and ranges count as put or deleted. Transactions
    /// call this for their guards: keys that no other commit may change between the begin and the
    /// commit of the transaction.
    pub(crate) fn of_keys_and_ranges(
        keys: impl IntoIterator<Item = TableKey>,
        ranges: impl IntoIterator<Item = TableRange>,
    ) -> Self {
        let point = |key| Point { key, merges: false };
        let mut write_set = Self {
            points: keys.into_iter().map(point).collect(),
            ranges: ranges.into_iter().collect(),
        };
        write_set.settle();
        write_set
    }

    /// Returns the write set of all keys of a table from `first` to `last`, both included.
    pub(crate) fn of_range(table: TableId, first: &[u8], last: &[u8]) -> Self {
        Self {
            points: Vec::new(),
            ranges: vec![TableRange {
                start: table_key(table, first),
                end: table_key(table, &[last, b"\0"].concat()),
            }],
        }
    }

    /// Returns the write set of single keys that are put or deleted.
    #[cfg(test)]
    pub(crate) fn of_keys(keys: impl IntoIterator<Item = TableKey>) -> Self {
        Self::of_keys_and_ranges(keys, [])
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_points(points: impl IntoIterator<Item = Point>) -> Self {
        let mut write_set = Self::default();
        write_set.points.extend(points);
        write_set.settle();
        write_set
    }

    /// Returns the write set of all keys of a range, which count as put or deleted.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_key_range(table: TableId, range: &KeyRange) -> Self {
        Self {
            points: Vec::new(),
            ranges: vec![TableRange::new(table, range)],
        }
    }

    /// Sorts the points (single keys), and replaces all points of a key by one point. The `merges`
    /// of that point is true only if the `merges` of all replaced points are.
    fn settle(&mut self) {
        self.points.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.points.dedup_by(|later, first| {
            let same = later.key == first.key;
            first.merges &= later.merges || !same;
            same
        });
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    pub(crate) fn ranges(&self) -> &[TableRange] {
        &self.ranges
    }

    pub(crate) fn point(&self, key: &TableKey) -> Option<&Point> {
        let at = self.points.binary_search_by(|point| point.key.cmp(key));
        at.ok().map(|at| &self.points[at])
    }

    pub(crate) fn first_in(&self, range: &TableRange) -> Option<&Point> {
        let at = self.points.partition_point(|point| point.key < range.start);
        self.points
            .get(at)
            .filter(|point| range.contains(&point.key))
    }
}
