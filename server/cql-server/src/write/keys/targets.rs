//! Keys with their values: partitions, and what of each of them is written.

use std::borrow::Cow;
use std::collections::HashSet;

use ebb_catalog::key::{ByteRange, KeyLayout, PartitionKey, SliceBound};
use ebb_catalog::types::elements;

use super::values::{Value, split_tuple};
use super::{Clustering, Group, GroupValues, Keys};
use crate::analyse::markers::Bound;
use crate::error::{Result, invalid, of_key, of_type};

/// How many rows one statement may name by IN: lists of several columns multiply.
const ROWS_MAX: usize = 65_536;

/// What one statement writes, its values known.
#[derive(Debug)]
pub(in crate::write) struct Targets<'v> {
    /// Each once.
    pub(in crate::write) partitions: Vec<PartitionKey>,
    /// In each of them.
    pub(in crate::write) rows: Rows<'v>,
}

/// What of a partition a statement writes.
#[derive(Debug)]
pub(in crate::write) enum Rows<'v> {
    /// No clustering column is named: its static columns, or all of it.
    Partition,
    /// Rows, each once.
    Named(Vec<RowTarget<'v>>),
    /// Ranges of encoded clusterings.
    Ranges(Vec<ByteRange>),
}

/// A row of a partition.
#[derive(Debug)]
pub(in crate::write) struct RowTarget<'v> {
    /// Of all clustering columns.
    values: Vec<Value<'v>>,
    /// The values as one tuple, where the key does not say what they were.
    pub(in crate::write) original: Option<Vec<u8>>,
}

impl RowTarget<'_> {
    /// The row's key in a partition.
    ///
    /// # Errors
    /// In Cassandra's words, where the values are too long.
    pub(in crate::write) fn key(
        &self,
        layout: &KeyLayout,
        partition: &PartitionKey,
    ) -> Result<Vec<u8>> {
        layout
            .row_key(partition, &slices(&self.values))
            .map_err(of_key)
    }
}

impl Keys {
    /// The rows with these values.
    ///
    /// # Errors
    /// In Cassandra's words, where a value is null, or a key too long or empty.
    pub(in crate::write) fn targets<'v>(
        &'v self,
        layout: &KeyLayout,
        bound: &Bound<'v>,
    ) -> Result<Targets<'v>> {
        let mut options = Vec::with_capacity(self.partition.len());
        for column in &self.partition {
            let values = column.evaluate(bound)?;
            options.push(values.into_iter().map(|value| vec![value]).collect());
        }
        let mut partitions = Vec::new();
        for values in product(options)? {
            partitions.push(layout.partition_key(&slices(&values)).map_err(of_key)?);
        }
        if partitions.len() > 1 {
            let mut seen = HashSet::new();
            partitions.retain(|partition| seen.insert(partition.as_bytes().to_vec()));
        }
        let rows = self.clustering.rows(layout, bound)?;
        Ok(Targets { partitions, rows })
    }
}

impl Clustering {
    fn rows<'v>(&'v self, layout: &KeyLayout, bound: &Bound<'v>) -> Result<Rows<'v>> {
        let columns = layout.clustering().len();
        if columns > 0 && self.columns == 0 && self.slice.is_none() {
            return Ok(Rows::Partition);
        }
        let groups = self.equal.iter().map(|group| group.evaluate(bound));
        let equal = product(groups.collect::<Result<_>>()?)?;
        if self.columns == columns {
            return Ok(Rows::Named(rows(layout, equal)?));
        }
        let (lower, upper) = match &self.slice {
            Some(slice) => (end(&slice.lower, bound)?, end(&slice.upper, bound)?),
            None => (None, None),
        };
        let lower = lower.as_ref().map(End::values);
        let upper = upper.as_ref().map(End::values);
        let mut ranges = Vec::new();
        for values in equal {
            let found = layout.slices(
                &slices(&values),
                lower.as_ref().map(slice_bound),
                upper.as_ref().map(slice_bound),
            );
            ranges.extend(found.map_err(of_key)?);
        }
        Ok(Rows::Ranges(ranges))
    }
}

/// An end of a slice, its values known.
struct End<'v>(Vec<Value<'v>>, bool);

impl End<'_> {
    fn values(&self) -> (Vec<&[u8]>, bool) {
        (slices(&self.0), self.1)
    }
}

fn end<'v>(end: &'v Option<super::Bound>, bound: &Bound<'v>) -> Result<Option<End<'v>>> {
    match end {
        Some(end) => Ok(Some(End(end.values.evaluate(bound)?, end.is_inclusive))),
        None => Ok(None),
    }
}

fn slice_bound<'a>((values, is_inclusive): &'a (Vec<&'a [u8]>, bool)) -> SliceBound<'a> {
    SliceBound {
        values,
        inclusive: *is_inclusive,
    }
}

impl Group {
    /// Each of its values, as values of its columns.
    fn evaluate<'v>(&'v self, bound: &Bound<'v>) -> Result<Vec<Vec<Value<'v>>>> {
        match &self.values {
            GroupValues::Single(values) => {
                let values = values.evaluate(bound)?;
                Ok(values.into_iter().map(|value| vec![value]).collect())
            }
            GroupValues::Tuples(tuples) => tuples.iter().map(|t| t.evaluate(bound)).collect(),
            GroupValues::TupleList(term) => {
                let list = term.evaluate(bound)?.condition("IN")?;
                let names = vec![String::from("IN"); self.columns];
                let mut tuples = Vec::new();
                for tuple in elements::elements(&list).map_err(of_type)? {
                    match tuple.map_err(of_type)? {
                        Some(tuple) => tuples.push(split_tuple(&names, tuple)?),
                        None => return invalid("Invalid null value in condition for column IN"),
                    }
                }
                Ok(tuples)
            }
        }
    }
}

/// Full clusterings as rows, each once.
fn rows<'v>(layout: &KeyLayout, all: Vec<Vec<Value<'v>>>) -> Result<Vec<RowTarget<'v>>> {
    let mut seen = HashSet::new();
    let mut rows = Vec::with_capacity(all.len());
    let several = all.len() > 1;
    for values in all {
        if several {
            let mut encoded = Vec::new();
            layout
                .encode_clustering(&slices(&values), &mut encoded)
                .map_err(of_key)?;
            if !seen.insert(encoded) {
                continue;
            }
        }
        let mut places = values.iter().enumerate();
        let is_in_key = places.all(|(at, value)| layout.is_reconstructible(at, value));
        let original = || elements::build_tuple(values.iter().map(|value| Some(&**value)));
        rows.push(RowTarget {
            original: (!is_in_key).then(original),
            values,
        });
    }
    Ok(rows)
}

/// Every combination of one of each group, joined.
fn product<'v>(groups: Vec<Vec<Vec<Value<'v>>>>) -> Result<Vec<Vec<Value<'v>>>> {
    let mut count = 1_usize;
    for group in &groups {
        count = count.saturating_mul(group.len());
        if count > ROWS_MAX {
            return invalid(format!(
                "A statement may write {ROWS_MAX} rows at most, named by IN"
            ));
        }
    }
    let mut all = vec![Vec::new()];
    for group in groups {
        let extended = |begin: &Vec<Value<'v>>| {
            let one = |end: &Vec<Value<'v>>| begin.iter().chain(end).cloned().collect();
            group.iter().map(one).collect::<Vec<Vec<Value<'v>>>>()
        };
        all = match (&all[..], group.len()) {
            ([begin], 1) if begin.is_empty() => group,
            _ => all.iter().flat_map(extended).collect(),
        };
    }
    Ok(all)
}

fn slices<'a>(values: &'a [Value<'_>]) -> Vec<&'a [u8]> {
    values.iter().map(Cow::as_ref).collect()
}
