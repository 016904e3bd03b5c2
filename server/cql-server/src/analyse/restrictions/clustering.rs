//! The rows of a partition that a statement selects, as ranges of encoded clusterings.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use ebb_cql::syntax::ast::Operator;
use ebb_model::key::{ByteRange, KeyError, SliceBound};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_tables::read::Rows;

use super::predicate::Predicate;
use super::relations::{InTuples, Parsed, Restriction, RestrictionKind, Tuple};
use super::values::{Related, Role};
use super::{Size, place};
use crate::analyse::markers::Bound;
use crate::error::{Result, invalid, of_key};
use crate::interrupt;

/// The restrictions on clustering columns that ranges of keys can express: equal values of the
/// first columns, then one slice.
#[derive(Debug, Default)]
pub struct ClusteringRestrictions {
    /// The `=` and IN relations on consecutive clustering columns, from the first column on.
    equal: Vec<Equal>,
    /// The lower end of a slice of the columns behind those of `equal`: the values, the number of
    /// columns, and whether the end itself is included. `None` if no relation limits this end.
    lower: Option<(Tuple, usize, bool)>,
    upper: Option<(Tuple, usize, bool)>,
    /// The number of columns that the relations in `equal` restrict.
    covered: usize,
}

/// An `=` or IN relation on one or more consecutive columns.
#[derive(Debug)]
struct Equal {
    columns: usize,
    values: EqualValues,
}

#[derive(Debug)]
enum EqualValues {
    One(Tuple),
    In(InTuples),
}

impl Equal {
    /// Evaluates the relation: returns the permitted lists of values, one for `=`, several for IN,
    /// each with a value for every column. `names` are the columns' names, for errors.
    fn values<'v>(&'v self, names: &[&str], bound: &Bound<'v>) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
        let related = |role| Related { names, role };
        match &self.values {
            EqualValues::One(tuple) => Ok(vec![related(Role::Equal).tuple(tuple, bound)?]),
            EqualValues::In(values) => related(Role::In).tuples(values, bound),
        }
    }
}

/// Returns the names of `count` clustering columns, from the one with the index `at` on.
fn names(schema: &TableSchema, at: usize, count: usize) -> Vec<&str> {
    let columns = &schema.columns_of(ColumnKind::Clustering)[at..at + count];
    columns.iter().map(|column| &*column.name).collect()
}

impl ClusteringRestrictions {
    /// Removes the restrictions on clustering columns from `parsed`. Returns those that ranges of
    /// keys can express, and appends the others to `predicates`.
    ///
    /// # Errors
    /// Cassandra's error, if ranges of keys cannot express all of them and `may_filter` is false.
    pub(super) fn new(
        schema: &TableSchema,
        parsed: &mut Parsed,
        may_filter: bool,
        predicates: &mut Vec<Predicate>,
    ) -> Result<Self> {
        let columns = schema.columns_of(ColumnKind::Clustering);
        check(schema, parsed, may_filter)?;
        let mut restrictions = Self::default();
        let mut at = 0;
        // The prefix ends at the first column without a relation, or with a slice.
        while at < columns.len() {
            let mut of_column: VecDeque<Restriction> =
                parsed.take(place(schema, &columns[at])).into();
            let Some(first) = of_column.pop_front() else {
                break;
            };
            // A multi-column relation covers the columns behind the first one, too: `take` returns it
            // only for its first column.
            let width = first.columns.len();
            // `merge::check` has refused `=` and IN beside another restriction, so only slices and
            // CONTAINS have a second one.
            match first.kind {
                RestrictionKind::Equal(tuple) => restrictions.equal.push(Equal {
                    columns: width,
                    values: EqualValues::One(tuple),
                }),
                RestrictionKind::In(values) => restrictions.equal.push(Equal {
                    columns: width,
                    values: EqualValues::In(values),
                }),
                RestrictionKind::Slice(operator, tuple) => {
                    restrictions.bound(operator, tuple, width);
                    for more in of_column {
                        let width = more.columns.len();
                        if let RestrictionKind::Slice(operator, tuple) = more.kind {
                            restrictions.bound(operator, tuple, width);
                        }
                    }
                    // `covered` ends before the slice: behind it, ranges of keys express nothing more.
                    break;
                }
                // No range of keys expresses the other kinds, such as CONTAINS.
                RestrictionKind::Other(test) => {
                    let columns = first.columns;
                    predicates.push(Predicate { columns, test });
                    predicates.extend(of_column.into_iter().map(Predicate::of));
                    break;
                }
            }
            at += width;
            restrictions.covered = at;
        }
        // `check` permits restrictions behind the prefix only with ALLOW FILTERING or an index.
        let rest: Vec<usize> = columns.iter().map(|column| place(schema, column)).collect();
        for place in rest {
            predicates.extend(parsed.take(place).into_iter().map(Predicate::of));
        }
        Ok(restrictions)
    }

    /// Sets the end of the slice that `operator` limits: the lower end for `>` and `>=`, the upper
    /// end for `<` and `<=`.
    fn bound(&mut self, operator: Operator, tuple: Tuple, columns: usize) {
        let inclusive = matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual);
        let bound = Some((tuple, columns, inclusive));
        match operator {
            Operator::Greater | Operator::GreaterOrEqual => self.lower = bound,
            _ => self.upper = bound,
        }
    }

    /// Returns whether every clustering column is restricted by `=` or IN.
    pub fn is_full(&self, schema: &TableSchema) -> bool {
        self.covered == schema.columns_of(ColumnKind::Clustering).len()
    }

    pub fn has_in(&self) -> bool {
        let mut equal = self.equal.iter();
        equal.any(|equal| matches!(equal.values, EqualValues::In(_)))
    }

    pub fn has_slice(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    /// Returns the values to which `=` or IN restricts the first clustering column. `None` without
    /// such a relation.
    pub fn first_values<'v>(
        &'v self,
        schema: &TableSchema,
        bound: &Bound<'v>,
    ) -> Result<Option<Vec<Cow<'v, [u8]>>>> {
        let Some(equal) = self.equal.first() else {
            return Ok(None);
        };
        let names = names(schema, 0, equal.columns);
        let tuples = equal.values(&names, bound)?;
        let first = |mut tuple: Vec<Cow<'v, [u8]>>| tuple.swap_remove(0);
        Ok(Some(tuples.into_iter().map(first).collect()))
    }

    /// Returns the rows that the statement selects, the same in each partition.
    pub fn rows(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Rows> {
        if !self.is_full(schema) {
            return if self.equal.is_empty() && !self.has_slice() {
                Ok(Rows::All)
            } else {
                self.ranges(schema, bound).map(Rows::In)
            };
        }
        let mut exact = Vec::new();
        for values in self.prefixes(schema, bound)? {
            let mut key = Vec::new();
            interrupt::charge_bytes(values.iter().map(|value| value.len()).sum())?;
            match encode(schema, &values, &mut key) {
                Ok(()) => exact.push(key),
                // No row has such a key, so a read finds nothing.
                Err(KeyError::ClusteringTooLong(_)) => {}
                Err(error) => return Err(of_key(error)),
            }
        }
        exact.sort_unstable();
        exact.dedup();
        Ok(Rows::Exactly(exact))
    }

    /// Returns the clusterings of the rows to write, without duplicates. All clustering columns
    /// must have values.
    pub fn clusterings<'v>(
        &'v self,
        schema: &TableSchema,
        bound: &Bound<'v>,
    ) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
        let all = self.prefixes(schema, bound)?;
        if all.len() < 2 {
            return Ok(all);
        }
        let (mut seen, mut each_once) = (HashSet::new(), Vec::with_capacity(all.len()));
        for values in all {
            let mut key = Vec::new();
            interrupt::charge_bytes(values.iter().map(|value| value.len()).sum())?;
            encode(schema, &values, &mut key).map_err(of_key)?;
            if seen.insert(key) {
                each_once.push(values);
            }
        }
        Ok(each_once)
    }

    /// Returns the selected rows of a partition as ranges of encoded clusterings, ascending and
    /// disjoint.
    pub fn ranges(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Vec<ByteRange>> {
        let layout = schema.layout();
        let end = |end: &Option<(Tuple, usize, bool)>| -> Result<Option<End>> {
            let Some((tuple, columns, inclusive)) = end else {
                return Ok(None);
            };
            let related = Related {
                names: &names(schema, self.covered, *columns),
                role: Role::Slice,
            };
            let values = related.tuple(tuple, bound)?;
            let values = values.iter().map(|value| value.to_vec()).collect();
            Ok(Some((values, *inclusive)))
        };
        let (lower, upper) = (end(&self.lower)?, end(&self.upper)?);
        let (lower_values, upper_values) = (parts(&lower), parts(&upper));
        let prefixes = self.prefixes(schema, bound)?;
        let ends = lower_values.iter().chain(&upper_values);
        let ends_bytes: usize = ends.map(|value| value.len()).sum();
        let of_ends = Size {
            lists: 1,
            bytes: ends_bytes,
        };
        size_of(&prefixes).check_product(of_ends)?;
        let (mut ranges, mut bytes) = (Vec::new(), 0);
        for prefix in prefixes {
            let lower = lower.as_ref().map(|(_, inclusive)| SliceBound {
                values: &lower_values,
                inclusive: *inclusive,
            });
            let upper = upper.as_ref().map(|(_, inclusive)| SliceBound {
                values: &upper_values,
                inclusive: *inclusive,
            });
            // Before the values are encoded: a long decimal takes milliseconds, and may have a short form.
            let prefix_bytes: usize = prefix.iter().map(|value| value.len()).sum();
            interrupt::charge_bytes(prefix_bytes + ends_bytes)?;
            let slices = layout.slices(&slices(&prefix), lower, upper);
            let slices = slices.map_err(of_key)?;
            let bytes_of_prefix: usize = slices.iter().map(ByteRange::size_bytes).sum();
            interrupt::charge_bytes(bytes_of_prefix)?;
            ranges.extend(slices);
            bytes += bytes_of_prefix;
            // Checked here, too: a slice of columns of different directions gives a range for each of
            // them, and each range contains the prefix.
            let size = Size {
                lists: ranges.len(),
                bytes,
            };
            size.check_product(Size { lists: 1, bytes: 0 })?;
        }
        // An IN may have its values in any order, and a value twice. The ranges of equal prefixes are equal,
        // and those of different prefixes are disjoint.
        ranges.sort_by(|a, b| a.from.cmp(&b.from));
        ranges.dedup();
        Ok(ranges)
    }

    /// Returns all combinations of values that the `=` and IN relations in `equal` permit. A
    /// combination has one value for each column.
    fn prefixes<'v>(
        &'v self,
        schema: &TableSchema,
        bound: &Bound<'v>,
    ) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
        let mut prefixes: Vec<Vec<Cow<'v, [u8]>>> = vec![Vec::new()];
        let mut at = 0;
        for equal in &self.equal {
            let tuples = equal.values(&names(schema, at, equal.columns), bound)?;
            at += equal.columns;
            size_of(&prefixes).check_product(size_of(&tuples))?;
            if let [values] = &tuples[..] {
                for prefix in &mut prefixes {
                    prefix.extend_from_slice(values);
                }
                continue;
            }
            let mut longer = Vec::with_capacity(prefixes.len() * tuples.len());
            for prefix in &prefixes {
                for tuple in &tuples {
                    interrupt::charge(1)?;
                    longer.push([&prefix[..], &tuple[..]].concat());
                }
            }
            prefixes = longer;
        }
        Ok(prefixes)
    }
}

fn size_of(lists: &[Vec<Cow<'_, [u8]>>]) -> Size {
    Size::of(lists.iter().map(Vec::as_slice))
}

fn slices<'a>(values: &'a [Cow<'_, [u8]>]) -> Vec<&'a [u8]> {
    values.iter().map(|value| &**value).collect()
}

fn encode(
    schema: &TableSchema,
    values: &[Cow<'_, [u8]>],
    key: &mut Vec<u8>,
) -> Result<(), KeyError> {
    schema.layout().encode_clustering(&slices(values), key)
}

/// One end of a slice: the values, and whether the end itself is included.
type End = (Vec<Vec<u8>>, bool);

/// Returns the values of one end of a slice; empty if the slice has no such end.
fn parts(end: &Option<End>) -> Vec<&[u8]> {
    let values = end.iter().flat_map(|(values, _)| values);
    values.map(|value| &value[..]).collect()
}

/// Checks that ranges of keys can express the relations on clustering columns. Checks nothing if
/// `may_filter` is true: with ALLOW FILTERING, or if an index may serve the statement, which is
/// decided later. Relations behind a slice have been refused by `merge::check`.
fn check(schema: &TableSchema, parsed: &Parsed, may_filter: bool) -> Result<()> {
    if may_filter {
        return Ok(());
    }
    let columns = schema.columns_of(ColumnKind::Clustering);
    let first = schema.columns_of(ColumnKind::PartitionKey).len();
    let mut is_restricted = vec![false; columns.len()];
    for restriction in parsed.peek(ColumnKind::Clustering) {
        if matches!(restriction.kind, RestrictionKind::Other(_)) {
            return invalid(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or \
                 filtering",
            );
        }
        for &place in &restriction.columns {
            is_restricted[place - first] = true;
        }
    }
    let Some(missing) = is_restricted
        .iter()
        .position(|is_restricted| !is_restricted)
    else {
        return Ok(());
    };
    let mut behind = columns.iter().zip(&is_restricted).skip(missing);
    if let Some((column, _)) = behind.find(|(_, is_restricted)| **is_restricted) {
        return invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not \
             restricted",
            column.name, columns[missing].name
        ));
    }
    Ok(())
}
