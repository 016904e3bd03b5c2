//! Which rows of a partition a statement asks for, as ranges of encoded clusterings.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use ebb_cql::syntax::ast::Operator;
use ebb_model::key::{ByteRange, KeyError, SliceBound};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_tables::read::Rows;

use super::partition::{in_tuples, tuple_values};
use super::predicate::Predicate;
use super::relations::{Ask, Asked, InTuples, Parsed, Tuple};
use super::{Size, is_slice, place};
use crate::analyse::markers::Bound;
use crate::error::{Result, invalid, of_key};
use crate::interrupt;

/// What ranges of keys can say: equal values of the first columns, then one slice.
#[derive(Debug, Default)]
pub struct ClusteringRestrictions {
    /// Of consecutive columns from the first.
    equal: Vec<Equal>,
    /// Of the columns after those.
    lower: Option<(Tuple, usize, bool)>,
    upper: Option<(Tuple, usize, bool)>,
    /// Columns that `equal` covers.
    covered: usize,
}

#[derive(Debug)]
struct Equal {
    columns: usize,
    values: EqualValues,
    name: String,
}

#[derive(Debug)]
enum EqualValues {
    One(Tuple),
    In(InTuples),
}

impl ClusteringRestrictions {
    pub(super) fn new(
        schema: &TableSchema,
        parsed: &mut Parsed,
        allow_filtering: bool,
        predicates: &mut Vec<Predicate>,
    ) -> Result<Self> {
        let columns = schema.columns_of(ColumnKind::Clustering);
        check(schema, parsed, allow_filtering)?;
        let mut restrictions = Self::default();
        let mut at = 0;
        // What stops the prefix: the first column without relations, or with a slice.
        while at < columns.len() {
            let mut asked: VecDeque<Asked> = parsed.take(place(schema, &columns[at])).into();
            let name = columns[at].name.to_string();
            let others = |asked: &Asked| matches!(asked.ask, Ask::Other(_));
            asked.retain(|asked| {
                let is_other = others(asked);
                if is_other {
                    predicates.push(Predicate::of(asked.clone()));
                }
                !is_other
            });
            let Some(first) = asked.pop_front() else {
                break;
            };
            let width = first.columns.len();
            match first.ask {
                Ask::Equal(tuple) => restrictions.equal.push(Equal {
                    columns: width,
                    values: EqualValues::One(tuple),
                    name,
                }),
                Ask::In(values) => restrictions.equal.push(Equal {
                    columns: width,
                    values: EqualValues::In(values),
                    name,
                }),
                Ask::Slice(operator, tuple) => {
                    restrictions.bound(operator, tuple, width);
                    for more in asked {
                        let width = more.columns.len();
                        if let Ask::Slice(operator, tuple) = more.ask {
                            restrictions.bound(operator, tuple, width);
                        }
                    }
                    break;
                }
                Ask::Other(_) => unreachable!("taken out before"),
            }
            at += width;
            restrictions.covered = at;
        }
        let rest: Vec<usize> = columns.iter().map(|column| place(schema, column)).collect();
        for place in rest {
            predicates.extend(parsed.take(place).into_iter().map(Predicate::of));
        }
        Ok(restrictions)
    }

    fn bound(&mut self, operator: Operator, tuple: Tuple, columns: usize) {
        let inclusive = matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual);
        let bound = Some((tuple, columns, inclusive));
        match operator {
            Operator::Greater | Operator::GreaterOrEqual => self.lower = bound,
            _ => self.upper = bound,
        }
    }

    /// Whether all clustering columns have one value, or some of IN.
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

    /// Whether the clustering column at this position has one value.
    pub fn has_one_value(&self, position: usize) -> bool {
        let mut from = 0;
        for equal in &self.equal {
            if (from..from + equal.columns).contains(&position) {
                return match &equal.values {
                    EqualValues::One(_) => true,
                    EqualValues::In(InTuples::List(tuples)) => tuples.len() == 1,
                    EqualValues::In(InTuples::Whole { .. }) => false,
                };
            }
            from += equal.columns;
        }
        false
    }

    /// Returns the values that the first clustering column may have, if they are named.
    pub fn first_values<'v>(&'v self, bound: &Bound<'v>) -> Result<Option<Vec<Cow<'v, [u8]>>>> {
        let Some(equal) = self.equal.first() else {
            return Ok(None);
        };
        let tuples = match &equal.values {
            EqualValues::One(tuple) => {
                vec![tuple_values(tuple, equal.columns, &equal.name, bound)?]
            }
            EqualValues::In(values) => in_tuples(values, equal.columns, &equal.name, bound)?,
        };
        let first = |mut tuple: Vec<Cow<'v, [u8]>>| tuple.swap_remove(0);
        Ok(Some(tuples.into_iter().map(first).collect()))
    }

    pub fn rows(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Rows> {
        if !self.is_full(schema) {
            return match self.equal.is_empty() && !self.has_slice() {
                true => Ok(Rows::All),
                false => self.ranges(schema, bound).map(Rows::In),
            };
        }
        let mut exact = Vec::new();
        for values in self.prefixes(bound)? {
            let mut key = Vec::new();
            interrupt::charge_bytes(values.iter().map(|value| value.len()).sum())?;
            match encode(schema, &values, &mut key) {
                Ok(()) => exact.push(key),
                // No row has such a key.
                Err(KeyError::ClusteringTooLong(_)) => {}
                Err(error) => return Err(of_key(error)),
            }
        }
        exact.sort_unstable();
        exact.dedup();
        Ok(Rows::Exactly(exact))
    }

    /// The rows that are written, where all columns have values: each once, by these.
    pub fn clusterings<'v>(
        &'v self,
        schema: &TableSchema,
        bound: &Bound<'v>,
    ) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
        let all = self.prefixes(bound)?;
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

    /// Ranges of encoded clusterings, ascending and disjoint.
    pub fn ranges(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Vec<ByteRange>> {
        let layout = schema.layout();
        let name = &schema.columns_of(ColumnKind::Clustering)[self.covered].name;
        let end = |end: &Option<(Tuple, usize, bool)>| -> Result<Option<End>> {
            let Some((tuple, columns, inclusive)) = end else {
                return Ok(None);
            };
            let values = tuple_values(tuple, *columns, name, bound)?;
            let values = values.iter().map(|value| value.to_vec()).collect();
            Ok(Some((values, *inclusive)))
        };
        let (lower, upper) = (end(&self.lower)?, end(&self.upper)?);
        let (lower_values, upper_values) = (parts(&lower), parts(&upper));
        let prefixes = self.prefixes(bound)?;
        let ends = lower_values.iter().chain(&upper_values);
        let of_ends = Size {
            lists: 1,
            bytes: ends.map(|value| value.len()).sum(),
        };
        size_of(&prefixes).check_product(of_ends)?;
        let mut ranges = Vec::new();
        for prefix in prefixes {
            interrupt::charge(1)?;
            let lower = lower.as_ref().map(|(_, inclusive)| SliceBound {
                values: &lower_values,
                inclusive: *inclusive,
            });
            let upper = upper.as_ref().map(|(_, inclusive)| SliceBound {
                values: &upper_values,
                inclusive: *inclusive,
            });
            let slices = layout.slices(&slices(&prefix), lower, upper);
            ranges.extend(slices.map_err(of_key)?);
        }
        ranges.sort_by(|a, b| a.from.cmp(&b.from));
        ranges.dedup();
        Ok(ranges)
    }

    /// Values of the columns that are equal to something: every combination.
    fn prefixes<'v>(&'v self, bound: &Bound<'v>) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
        let mut prefixes: Vec<Vec<Cow<'v, [u8]>>> = vec![Vec::new()];
        for equal in &self.equal {
            let tuples = match &equal.values {
                EqualValues::One(tuple) => {
                    let values = tuple_values(tuple, equal.columns, &equal.name, bound)?;
                    size_of(&prefixes).check_product(Size::of([values.as_slice()]))?;
                    for prefix in &mut prefixes {
                        prefix.extend_from_slice(&values);
                    }
                    continue;
                }
                EqualValues::In(values) => in_tuples(values, equal.columns, &equal.name, bound)?,
            };
            size_of(&prefixes).check_product(size_of(&tuples))?;
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
) -> std::result::Result<(), KeyError> {
    schema.layout().encode_clustering(&slices(values), key)
}

/// One end of a slice, and whether it is part of it.
type End = (Vec<Vec<u8>>, bool);

/// The values of one end of a slice.
fn parts(end: &Option<End>) -> Vec<&[u8]> {
    let values = end.iter().flat_map(|(values, _)| values);
    values.map(|value| &value[..]).collect()
}

/// Holds relations on clustering columns to what may be said together.
fn check(schema: &TableSchema, parsed: &Parsed, allow_filtering: bool) -> Result<()> {
    let columns = schema.columns_of(ColumnKind::Clustering);
    let first = schema.columns_of(ColumnKind::PartitionKey).len();
    // Of each column: the relations that begin with it.
    let mut by_column: Vec<Vec<&Asked>> = columns.iter().map(|_| Vec::new()).collect();
    let mut covered_by: Vec<Option<usize>> = vec![None; columns.len()];
    for asked in parsed.peek(ColumnKind::Clustering) {
        let start = asked.columns[0] - first;
        by_column[start].push(asked);
        for &place in &asked.columns {
            let at = place - first;
            let is_first = covered_by[at].is_none_or(|by| by == start);
            if !is_first {
                return invalid(match &asked.ask {
                    Ask::Slice(..) => format!(
                        "Column \"{}\" cannot be restricted by two inequalities not starting with \
                         the same column",
                        columns[at].name
                    ),
                    _ => format!(
                        "{} cannot be restricted by more than one relation if it includes an Equal",
                        columns[at].name
                    ),
                });
            }
            covered_by[at] = Some(start);
        }
    }
    let mut slice_at: Option<usize> = None;
    let mut missing: Option<usize> = None;
    for (at, asked) in by_column.iter().enumerate() {
        check_column(&columns[at].name, asked)?;
        let (name, is_covered) = (&columns[at].name, covered_by[at].is_some());
        if !is_covered {
            missing = missing.or(Some(at));
            continue;
        }
        if allow_filtering {
            continue;
        }
        if asked.is_empty() {
            continue;
        }
        if let Some(before) = slice_at {
            return invalid(format!(
                "Clustering column \"{name}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                columns[before].name
            ));
        }
        let contains = |asked: &&Asked| matches!(asked.ask, Ask::Other(_));
        if asked.iter().any(contains) {
            return invalid(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or \
                 filtering",
            );
        }
        if let Some(missing) = missing {
            return invalid(format!(
                "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is \
                 not restricted",
                columns[missing].name
            ));
        }
        let slice = |asked: &&Asked| matches!(asked.ask, Ask::Slice(..));
        if asked.iter().any(slice) {
            slice_at = Some(at);
        }
    }
    Ok(())
}

fn check_column(name: &str, asked: &[&Asked]) -> Result<()> {
    let count = |test: &dyn Fn(&Ask) -> bool| asked.iter().filter(|asked| test(&asked.ask)).count();
    let key_asks = count(&|ask| !matches!(ask, Ask::Other(_)));
    if key_asks < 2 {
        return Ok(());
    }
    if count(&|ask| matches!(ask, Ask::Equal(_))) > 0 {
        return invalid(format!(
            "{name} cannot be restricted by more than one relation if it includes an Equal"
        ));
    }
    if count(&|ask| matches!(ask, Ask::In(_))) > 0 {
        return invalid(format!(
            "{name} cannot be restricted by more than one relation if it includes a IN"
        ));
    }
    let lower = |ask: &Ask| {
        matches!(
            ask,
            Ask::Slice(Operator::Greater | Operator::GreaterOrEqual, _)
        )
    };
    if count(&lower) > 1 {
        return invalid(format!(
            "More than one restriction was found for the start bound on {name}"
        ));
    }
    let upper =
        |ask: &Ask| matches!(ask, Ask::Slice(operator, _) if is_slice(*operator) && !lower(ask));
    if count(&upper) > 1 {
        return invalid(format!(
            "More than one restriction was found for the end bound on {name}"
        ));
    }
    Ok(())
}
