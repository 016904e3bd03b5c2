//! Conditions with bound values, and their evaluation.

use std::borrow::Cow;
use std::cmp::Ordering;

use ebb_cql::syntax::ast::Operator;
use ebb_model::row::{LiveColumn, RowView};
use ebb_model::types::{CqlType, elements};

use super::{ColumnCondition, ConditionPart, ConditionTest};
use crate::analyse::markers::Bound;
use crate::analyse::term::Evaluated;
use crate::error::{Result, invalid, of_row, of_type};
use crate::interrupt;
use crate::memory::Memory;
use crate::read::{contains, element, serialize};

/// A value; `None` is null.
type Value<'v> = Option<Cow<'v, [u8]>>;

/// A condition on one column, whose terms are evaluated.
#[derive(Debug)]
pub(in crate::write) struct BoundCondition<'v> {
    condition: &'v ColumnCondition,
    part: BoundPart<'v>,
    operator: Operator,
    /// The values to compare the column with: one or, for IN, any number. The condition holds if
    /// one of them matches, so never if there is none.
    values: Vec<Value<'v>>,
}

#[derive(Debug)]
enum BoundPart<'v> {
    Whole,
    Key(Cow<'v, [u8]>),
    Index(usize),
    Field(u16),
}

impl ColumnCondition {
    /// Evaluates the terms of the condition with the bound values of a request. `memory` counts the
    /// computed values, which are neither in the request nor in the plan: a batch keeps those of
    /// all its statements until it is executed.
    ///
    /// # Errors
    /// Cassandra's errors, if a value is invalid, unset or null where that is not permitted. Also
    /// an error if the values take too much memory.
    pub(in crate::write) fn bind<'v>(
        &'v self,
        bound: &Bound<'v>,
        memory: &mut Memory,
    ) -> Result<BoundCondition<'v>> {
        let (operator, values) = match &self.test {
            ConditionTest::Compare(operator, term) => {
                let contains = matches!(operator, Operator::Contains | Operator::ContainsKey);
                match term.evaluate(bound)? {
                    // As in Cassandra, no unfrozen collection contains an unset value.
                    Evaluated::Unset if contains && self.column.ty.is_multi_cell() => {
                        (*operator, Vec::new())
                    }
                    evaluated => (*operator, vec![set(evaluated)?]),
                }
            }
            ConditionTest::In(terms) => {
                let mut values = Vec::with_capacity(terms.len());
                for term in terms {
                    // As in Cassandra, unset values are left out of the list, and are no error here.
                    values.extend(term.evaluate(bound)?.unless_unset());
                }
                // IN holds if the column equals one of the values.
                (Operator::Equal, values)
            }
            ConditionTest::InWhole(list) => {
                let Some(list) = set(list.evaluate(bound)?)? else {
                    return invalid("Invalid null list in IN condition");
                };
                let all = elements::elements(&list).map_err(of_type)?;
                // Elements are normalized one by one: as a whole, a list with a null has no normal
                // form.
                let one = |one: Result<Option<&[u8]>, _>| {
                    let Some(one) = one.map_err(of_type)? else {
                        return Ok(None);
                    };
                    let normal = self.ty.try_normalize(one, &mut interrupt::charge_bytes)?;
                    Ok(Some(Cow::Owned(normal.into_owned())))
                };
                (Operator::Equal, all.map(one).collect::<Result<_>>()?)
            }
        };
        let part = match &self.part {
            ConditionPart::Whole => BoundPart::Whole,
            ConditionPart::Field(field) => BoundPart::Field(*field),
            ConditionPart::Element(key) => {
                let is_map = matches!(self.column.ty, CqlType::Map { .. });
                let what = if is_map { "map" } else { "list" };
                let error = |no: &str| format!("Invalid {no} value for {what} element access");
                let key = key.evaluate(bound)?.required(error)?;
                if is_map {
                    BoundPart::Key(key)
                } else {
                    BoundPart::Index(list_index(&key)?)
                }
            }
        };
        let key = match &part {
            BoundPart::Key(key) => Some(key),
            _ => None,
        };
        let computed = values.iter().flatten().chain(key).map(|value| match value {
            Cow::Owned(bytes) => bytes.len(),
            Cow::Borrowed(_) => 0,
        });
        memory.take(computed.sum())?;
        Ok(BoundCondition {
            condition: self,
            part,
            operator,
            values,
        })
    }
}

impl BoundCondition<'_> {
    /// Returns whether the condition holds for a row. The columns of a missing row are null.
    ///
    /// # Errors
    /// Cassandra's error for a comparison by order (such as `<`) with null or an empty collection,
    /// an error if the row is damaged, or the timeout of the statement.
    pub(in crate::write) fn holds(&self, row: &RowView<'_>) -> Result<bool> {
        let column = &self.condition.column;
        let live = row.column(column.id.0).map_err(of_row)?;
        let found = match live {
            None => None,
            Some(LiveColumn::Cell(cell)) => Some(Cow::Borrowed(cell.value)),
            Some(LiveColumn::Collection(collection)) => {
                Some(Cow::Owned(serialize(&column.ty, &collection)?))
            }
        };
        let found = match (&self.part, &found) {
            (BoundPart::Whole, found) => found.as_deref(),
            (_, None) => None,
            (BoundPart::Key(key), Some(map)) => element(&column.ty, map, key)?,
            (BoundPart::Index(index), Some(list)) => {
                let mut all = elements::elements(list).map_err(of_type)?;
                let found = all.nth(*index).transpose().map_err(of_type)?;
                found.flatten()
            }
            (BoundPart::Field(field), Some(udt)) => {
                let found = elements::components(udt).nth(usize::from(*field));
                found.transpose().map_err(of_type)?.flatten()
            }
        };
        let is_unfrozen = matches!(self.part, BoundPart::Whole)
            && column.ty.is_collection()
            && column.ty.is_multi_cell();
        self.any(|value| match (value, found) {
            (Some(value), found) if is_unfrozen && self.is_empty_collection(value) => {
                null(self.operator, found.is_none(), empty(&column.ty))
            }
            (Some(value), Some(found)) => {
                satisfies(self.operator, &self.condition.ty, found, value)
            }
            (Some(_), None) => Ok(self.operator == Operator::NotEqual),
            (None, found) => null(self.operator, found.is_none(), "null"),
        })
    }

    /// Returns whether the operator compares whole collections, and `value` is an empty one. The
    /// value of CONTAINS is an element or a key.
    fn is_empty_collection(&self, value: &[u8]) -> bool {
        !matches!(self.operator, Operator::Contains | Operator::ContainsKey)
            && value.starts_with(&[0; 4])
    }

    fn any(&self, mut holds: impl FnMut(Option<&[u8]>) -> Result<bool>) -> Result<bool> {
        for value in &self.values {
            interrupt::charge(1)?;
            if holds(value.as_deref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the value of a condition's term; an error if the client left its bind marker unset.
fn set(evaluated: Evaluated<'_>) -> Result<Value<'_>> {
    match evaluated.unless_unset() {
        Some(value) => Ok(value),
        None => invalid("Invalid 'unset' value in condition"),
    }
}

fn list_index(bytes: &[u8]) -> Result<usize> {
    let Ok(index) = bytes.try_into().map(i32::from_be_bytes) else {
        return invalid("Invalid empty value for list index");
    };
    match usize::try_from(index) {
        Ok(index) => Ok(index),
        Err(_) => invalid(format!("Invalid negative list index {index}")),
    }
}

/// Returns whether a condition holds if its value is null, or is an empty unfrozen collection,
/// which is stored as null. `is_null` is true if the column or element that the condition tests is
/// null. `operand` names the value in errors: "null" or the result of [`empty`].
///
/// # Errors
/// Cassandra's error for an operator other than `=` and `!=`.
fn null(operator: Operator, is_null: bool, operand: &str) -> Result<bool> {
    match operator {
        Operator::Equal => Ok(is_null),
        Operator::NotEqual => Ok(!is_null),
        other => invalid(format!(
            "Invalid comparison with {operand} for operator \"{}\"",
            other.text()
        )),
    }
}

/// Returns the words for an empty collection of this type in Cassandra's errors.
fn empty(ty: &CqlType) -> &'static str {
    match ty {
        CqlType::List { .. } => "an empty list",
        CqlType::Set { .. } => "an empty set",
        _ => "an empty map",
    }
}

/// Returns whether `found`, of type `ty`, satisfies the operator with `value`, for example
/// `found < value`.
fn satisfies(operator: Operator, ty: &CqlType, found: &[u8], value: &[u8]) -> Result<bool> {
    let order = || {
        interrupt::charge_bytes(found.len().min(value.len()))?;
        ty.try_compare(found, value, &mut interrupt::charge_bytes)
    };
    Ok(match operator {
        Operator::Equal => order()? == Ordering::Equal,
        Operator::NotEqual => order()? != Ordering::Equal,
        Operator::Less => order()? == Ordering::Less,
        Operator::LessOrEqual => order()? != Ordering::Greater,
        Operator::Greater => order()? == Ordering::Greater,
        Operator::GreaterOrEqual => order()? != Ordering::Less,
        Operator::Contains => contains(ty, found, value)?,
        Operator::ContainsKey => element(ty, found, value)?.is_some(),
        Operator::Like => false,
    })
}

#[cfg(test)]
mod tests {
    use ebb_cql::protocol::{Value, ValuesBuf};
    use ebb_cql::syntax::ast::{Condition, Statement, Write};
    use ebb_cql::syntax::parse;

    use super::*;
    use crate::analyse::markers::Markers;
    use crate::executor::harness::Server;

    /// Regression: no limit counted the computed values of conditions. A batch of prepared
    /// statements has the values of all its conditions at once, and a short literal such as `{a:
    /// ?}` may have thousands of nulls, one for each field that it leaves out.
    #[test]
    fn the_computed_values_of_conditions_are_counted() {
        let server = Server::with(&[
            "CREATE TYPE u (a int, b int, c int)",
            "CREATE TABLE t (k int PRIMARY KEY, u frozen<u>, v int, m map<frozen<u>, int>)",
        ]);
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema();
        let text = "UPDATE t SET v = 1 WHERE k = 1 IF u = {a: ?} AND v = ? AND m[{a: ?}] = ?";
        let parsed = parse(text).unwrap();
        let Statement::Write(Write::Update(update)) = &parsed.statement else {
            panic!("{text} is no UPDATE");
        };
        let Condition::All(conditions) = &update.condition else {
            panic!("{text} has no conditions");
        };
        let mut markers = Markers::new(schema, &parsed.markers);
        let prepared: Vec<ColumnCondition> = conditions
            .iter()
            .map(|condition| ColumnCondition::prepare(condition, schema, &mut markers).unwrap())
            .collect();
        let columns = markers.columns().unwrap();
        let values = ValuesBuf::from_iter([Value::Bytes(&[0, 0, 0, 1]); 4]);
        let bound = Bound::new(values.as_values(), &columns, 0).unwrap();
        let mut memory = Memory::default();
        // The value of `v` is in the request, and so is that of the element.
        for condition in &prepared {
            condition.bind(&bound, &mut memory).unwrap();
        }
        // The value of `u` and the key of the element: the field with its length, and two nulls.
        assert_eq!(memory.bytes(), 2 * (8 + 2 * 4));
    }
}
