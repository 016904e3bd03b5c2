//! Filtering: the predicates of a SELECT that no range of keys expresses.

use std::borrow::Cow;
use std::cmp::Ordering;

use ebb_cql::syntax::ast::Operator;
use ebb_model::row::LiveColumn;
use ebb_model::types::{CqlType, elements};

use super::value::{element, is_equal, serialize};
use crate::analyse::markers::Bound;
use crate::analyse::restrictions::{Predicate, Related, Role, Test};
use crate::analyse::selection::Slots;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, of_type};
use crate::interrupt;

/// The predicates of a statement with their bound values.
#[derive(Debug)]
pub struct Filter<'f> {
    all: Vec<One<'f>>,
    /// The types of the columns that the statement reads, indexed by slot.
    types: &'f [&'f CqlType],
}

/// A predicate, with the slots of the columns that it tests.
#[derive(Debug)]
struct One<'f> {
    slots: Vec<usize>,
    test: BoundTest<'f>,
}

/// A [`Test`] whose terms are evaluated.
#[derive(Debug)]
enum BoundTest<'f> {
    Compare(Operator, Vec<Cow<'f, [u8]>>),
    In(Vec<Vec<Cow<'f, [u8]>>>),
    Contains(Cow<'f, [u8]>),
    ContainsKey(Cow<'f, [u8]>),
    Element(Cow<'f, [u8]>, Cow<'f, [u8]>),
}

impl<'f> Filter<'f> {
    /// Evaluates the terms of predicates with the bound values. `slots` has the positions of the
    /// read columns among the cells of a row. `names` returns the name of the column at a position
    /// in the table, for errors.
    pub fn new(
        predicates: &'f [Predicate],
        slots: &Slots,
        types: &'f [&'f CqlType],
        names: impl Fn(usize) -> &'f str,
        bound: &Bound<'f>,
    ) -> Result<Self> {
        let one = |predicate: &'f Predicate| {
            let columns = &predicate.columns;
            let slot = |place: &usize| slots.get(*place);
            let names: Vec<&str> = columns.iter().map(|&place| names(place)).collect();
            let name = names[0];
            let related = Related {
                names: &names,
                role: Role::Filter,
            };
            let value = |term: &'f Term| related.value(0, term.evaluate(bound)?);
            let test = match &predicate.test {
                Test::Compare(operator, tuple) => {
                    BoundTest::Compare(*operator, related.tuple(tuple, bound)?)
                }
                Test::In(values) => BoundTest::In(related.tuples(values, bound)?),
                Test::Contains(term) => BoundTest::Contains(value(term)?),
                Test::ContainsKey(term) => BoundTest::ContainsKey(value(term)?),
                Test::Element { key, value } => BoundTest::Element(
                    entry(key.evaluate(bound)?, "key", name)?,
                    entry(value.evaluate(bound)?, "value", name)?,
                ),
            };
            Ok(One {
                slots: columns.iter().filter_map(slot).collect(),
                test,
            })
        };
        let all = predicates.iter().map(one).collect::<Result<_>>()?;
        Ok(Self { all, types })
    }

    /// Returns whether the columns of a row pass all predicates, except the one at the position
    /// `checked`, if there is one: the caller has checked it with [`passes_one`](Self::passes_one).
    ///
    /// # Errors
    /// If the row is damaged, or the statement's time is over.
    pub fn passes(&self, cells: &[Option<LiveColumn<'_>>], checked: Option<usize>) -> Result<bool> {
        for (at, one) in self.all.iter().enumerate() {
            if checked != Some(at) && !self.holds(one, cells)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a row passes the predicate with the index `predicate` among those of the
    /// statement. `cells` are the columns of the row that the statement reads.
    ///
    /// # Errors
    /// If the row is damaged, or the statement's time is over.
    pub fn passes_one(&self, predicate: usize, cells: &[Option<LiveColumn<'_>>]) -> Result<bool> {
        self.holds(&self.all[predicate], cells)
    }

    /// Returns whether a predicate holds for the columns of a row.
    fn holds(&self, one: &One<'_>, cells: &[Option<LiveColumn<'_>>]) -> Result<bool> {
        let mut values: Vec<Cow<'_, [u8]>> = Vec::with_capacity(one.slots.len());
        for &slot in &one.slots {
            values.push(match &cells[slot] {
                // No predicate holds for null.
                None => return Ok(false),
                Some(LiveColumn::Cell(cell)) => Cow::Borrowed(cell.value),
                // The cells of the collection are put together to one value, as a client would get it.
                Some(LiveColumn::Collection(collection)) => {
                    Cow::Owned(serialize(self.types[slot], collection)?)
                }
            });
        }
        let bytes = values.iter().map(|value| value.len()).sum::<usize>();
        interrupt::charge_bytes(bytes)?;
        let ty = |at: usize| self.types[one.slots[at]];
        // As a tuple: the first columns that differ decide. Values are compared by their types, since
        // the order of their bytes is another one.
        let compare = |with: &[Cow<'_, [u8]>]| -> Result<Ordering> {
            for (at, (a, b)) in values.iter().zip(with).enumerate() {
                let order = ty(at).try_compare(a, b, &mut interrupt::charge_bytes)?;
                if order.is_ne() {
                    return Ok(order);
                }
            }
            Ok(Ordering::Equal)
        };
        Ok(match &one.test {
            BoundTest::Compare(operator, with) => {
                let order = compare(with)?;
                match operator {
                    Operator::Equal => order.is_eq(),
                    Operator::NotEqual => order.is_ne(),
                    Operator::Less => order.is_lt(),
                    Operator::LessOrEqual => order.is_le(),
                    Operator::Greater => order.is_gt(),
                    Operator::GreaterOrEqual => order.is_ge(),
                    // The other operators have tests of their own.
                    _ => false,
                }
            }
            BoundTest::In(tuples) => {
                // A list of a client may have thousands of tuples, so each comparison is charged.
                for with in tuples {
                    interrupt::charge_bytes(bytes)?;
                    if compare(with)?.is_eq() {
                        return Ok(true);
                    }
                }
                false
            }
            BoundTest::Contains(wanted) => contains(ty(0), &values[0], wanted)?,
            BoundTest::ContainsKey(key) => element(ty(0), &values[0], key)?.is_some(),
            BoundTest::Element(key, wanted) => {
                // The analysis permits this test on maps only.
                let CqlType::Map { value, .. } = ty(0) else {
                    return Ok(false);
                };
                match element(ty(0), &values[0], key)? {
                    Some(found) => is_equal(value, found, wanted)?,
                    None => false,
                }
            }
        })
    }
}

/// Returns the evaluated key or value of a predicate on a map entry, which may not be null or
/// unset. `what` names it in errors.
fn entry<'v>(evaluated: Evaluated<'v>, what: &str, column: &str) -> Result<Cow<'v, [u8]>> {
    evaluated.required(|no| format!("Unsupported {no} map {what} for column {column}"))
}

/// Returns whether a list or set contains an element, or a map a value.
///
/// # Errors
/// If the collection is damaged, or the statement's time is over.
pub fn contains(ty: &CqlType, collection: &[u8], wanted: &[u8]) -> Result<bool> {
    let CqlType::Map { value, .. } = ty else {
        return Ok(element(ty, collection, wanted)?.is_some());
    };
    let values = elements::pairs(collection)
        .map_err(of_type)?
        .skip(1)
        .step_by(2);
    for found in values {
        let found = found.map_err(of_type)?.unwrap_or_default();
        interrupt::charge_bytes(found.len())?;
        if is_equal(value, found, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}
