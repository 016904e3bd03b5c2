//! Which rows a statement writes: WHERE of UPDATE and DELETE, the key columns of INSERT.
//!
//! ```text
//! relations ──restrictions──> Keys: a term, or several, for each key column
//! Keys + values ──targets──> Targets: partitions, and in each of them rows or ranges
//! ```

mod restrictions;
mod targets;
mod values;

pub(super) use restrictions::{Written, of_columns, of_relations};
pub(super) use targets::{RowTarget, Rows};

use values::{ColumnValues, TupleValues};

/// The rows that a statement writes, as terms.
#[derive(Debug)]
pub(super) struct Keys {
    /// Of each column of the partition key.
    partition: Vec<ColumnValues>,
    clustering: Clustering,
}

/// The part of the key within the partition, as terms.
#[derive(Debug, Default)]
struct Clustering {
    /// Of the first columns, without gaps: names, and values of one or several columns at
    /// a time.
    equal: Vec<Group>,
    /// How many columns these are.
    columns: usize,
    slice: Option<Slice>,
}

/// Values for consecutive columns.
#[derive(Debug)]
struct Group {
    /// The first of them, counted from the first clustering column.
    first: usize,
    /// How many.
    columns: usize,
    values: GroupValues,
}

#[derive(Debug)]
enum GroupValues {
    /// Of one column.
    Single(ColumnValues),
    /// `(a, b) IN (...)`.
    Tuples(Vec<TupleValues>),
    /// `(a, b) IN ?`.
    TupleList(crate::analyse::term::Term),
}

/// Bounds of the columns after those that are equal to something.
#[derive(Debug, Default)]
struct Slice {
    first: usize,
    /// How many columns the longer bound has.
    columns: usize,
    lower: Option<Bound>,
    upper: Option<Bound>,
}

#[derive(Debug)]
struct Bound {
    values: TupleValues,
    is_inclusive: bool,
}

impl Keys {
    /// The places of the markers of the partition key; none where a column has no marker
    /// of its own.
    pub(super) fn partition_markers(&self) -> Vec<u16> {
        let markers = self.partition.iter().map(ColumnValues::marker);
        markers.collect::<Option<_>>().unwrap_or_default()
    }
}
