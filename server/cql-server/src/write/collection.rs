//! Operations on one column, with their values, as cells and elements of a row.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use ebb_model::key::ordered;
use ebb_model::row::{ListEnd, LiveColumn, LiveElement, RowView, list_place, try_parts};
use ebb_model::types::{CqlType, TypeError, elements, sort_once};

use super::operation::Operation;
use super::plan::Change;
use super::row_buffer::RowBuffer;
use crate::analyse::markers::Bound;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, invalid, of_encoding, of_row, of_type};
use crate::interrupt;

/// The elements of a list that is there: their values by their places.
type Present = BTreeMap<Vec<u8>, Vec<u8>>;

impl Operation {
    /// What is written depends on what is there.
    pub(super) fn reads(&self) -> bool {
        matches!(
            self,
            Self::RemoveValues(_)
                | Self::SetIndex { .. }
                | Self::RemoveIndex(_)
                | Self::Count { .. }
        )
    }
}

/// Writes what a change does to a row. `before` is the row as it is; it must be there for
/// operations that read. `came` is when the request came, and counts its operations that add to
/// lists.
///
/// # Errors
/// In Cassandra's words, for values that are null where none may be, and indexes that the
/// list does not have.
pub(super) fn apply<'v>(
    change: &'v Change,
    bound: &Bound<'v>,
    before: Option<&RowView<'_>>,
    came: (i64, &mut u32),
    row: &mut RowBuffer<'v>,
) -> Result<()> {
    let (id, ty) = (change.column.id.0, &change.column.ty);
    // Each change sees what those before it did.
    let present = |row: &RowBuffer<'_>| -> Result<Present> {
        match before {
            Some(before) => row.elements_after(&elements_of(before, id)?, id),
            None => Ok(Present::new()),
        }
    };
    match &change.operation {
        Operation::Set(term) => {
            let value = match term.evaluate(bound)? {
                Evaluated::Unset => return Ok(()),
                Evaluated::Null => None,
                Evaluated::Value(value) => Some(value),
            };
            if !ty.is_multi_cell() {
                row.cell(id, value);
                return Ok(());
            }
            row.clear_older(id);
            match value {
                Some(value) => add(ty, id, &value, ListEnd::Back, came, row),
                None => Ok(()),
            }
        }
        Operation::Count { by, is_negative } => {
            let by = match by.evaluate(bound)? {
                Evaluated::Unset => return Ok(()),
                Evaluated::Null => return invalid("Invalid null value for counter increment"),
                Evaluated::Value(bytes) => number(&bytes),
            };
            let Some(by) = by else {
                return invalid("Invalid empty value for counter increment");
            };
            let by = match is_negative {
                false => by,
                true => match by.checked_neg() {
                    Some(by) => by,
                    None => {
                        return invalid(format!(
                            "The negation of {by} overflows supported counter precision (signed \
                             8 bytes integer)"
                        ));
                    }
                },
            };
            let there = match before {
                Some(before) => before.cell(id).map_err(of_row)?,
                None => None,
            };
            let there = row.value(id).or(there.map(|cell| cell.value));
            let sum = there.and_then(number).unwrap_or(0).wrapping_add(by);
            row.cell(id, Some(Cow::Owned(sum.to_be_bytes().to_vec())));
            Ok(())
        }
        Operation::Remove if ty.is_multi_cell() => {
            row.clear(id);
            Ok(())
        }
        Operation::Remove => {
            row.cell(id, None);
            Ok(())
        }
        Operation::Append(term) | Operation::Add(term) => match value(term, bound)? {
            Some(value) => add(ty, id, &value, ListEnd::Back, came, row),
            None => Ok(()),
        },
        Operation::Prepend(term) => match value(term, bound)? {
            Some(value) => add(ty, id, &value, ListEnd::Front, came, row),
            None => Ok(()),
        },
        Operation::RemoveKeys(term) => {
            let (Some(keys), Some(ty)) = (value(term, bound)?, key_type(ty)) else {
                return Ok(());
            };
            for key in elements::elements(&keys).map_err(of_type)? {
                let path = path(ty, some(key)?)?;
                row.element(id, path, None, None);
            }
            Ok(())
        }
        Operation::SetKey { key, value } => {
            let key = match key.evaluate(bound)? {
                Evaluated::Value(key) => key,
                Evaluated::Null => return invalid("Invalid null map key"),
                Evaluated::Unset => return invalid("Invalid unset map key"),
            };
            let value = match value.evaluate(bound)? {
                Evaluated::Unset => return Ok(()),
                Evaluated::Null => None,
                Evaluated::Value(value) => Some(value),
            };
            if let Some(ty) = key_type(ty) {
                let path = path(ty, &key)?;
                let original = match value {
                    Some(_) => original(ty, &key)?,
                    None => None,
                };
                row.element(id, path, original, value);
            }
            Ok(())
        }
        Operation::RemoveKey(term) => {
            let what = match ty {
                CqlType::Set { .. } => "set element",
                _ => "map key",
            };
            let key = match term.evaluate(bound)? {
                Evaluated::Value(key) => key,
                Evaluated::Null => return invalid(format!("Invalid null {what}")),
                Evaluated::Unset => return invalid(format!("Invalid unset {what}")),
            };
            if let Some(ty) = key_type(ty) {
                row.element(id, path(ty, &key)?, None, None);
            }
            Ok(())
        }
        Operation::SetField { field, value } => {
            let value = match value.evaluate(bound)? {
                Evaluated::Unset => return Ok(()),
                Evaluated::Null => None,
                Evaluated::Value(value) => Some(value),
            };
            row.element(id, field.to_be_bytes().to_vec(), None, value);
            Ok(())
        }
        Operation::RemoveField(field) => {
            row.element(id, field.to_be_bytes().to_vec(), None, None);
            Ok(())
        }
        Operation::RemoveValues(term) => {
            let Some(values) = value(term, bound)? else {
                return Ok(());
            };
            let CqlType::List { element, .. } = ty else {
                return Ok(());
            };
            let gone = elements::elements(&values).map_err(of_type)?;
            let gone = gone
                .collect::<std::result::Result<Vec<_>, TypeError>>()
                .map_err(of_type)?;
            let gone: Vec<&[u8]> = gone.into_iter().flatten().collect();
            let gone = sort_once(element, gone, |one| one, &mut interrupt::charge_bytes)?;
            for (place, value) in present(row)? {
                if is_among(element, &gone, &value)? {
                    row.element(id, place, None, None);
                }
            }
            Ok(())
        }
        Operation::SetIndex { index, value } => {
            let Some(at) = index_of(index, bound)? else {
                return invalid("Invalid unset value for list index");
            };
            let value = match value.evaluate(bound)? {
                Evaluated::Unset => return Ok(()),
                Evaluated::Null => None,
                Evaluated::Value(value) => Some(value),
            };
            let list = present(row)?;
            if list.is_empty() {
                return invalid("Attempted to set an element on a list which is null");
            }
            row.element(id, place_at(list, at)?, None, value);
            Ok(())
        }
        Operation::RemoveIndex(index) => {
            let Some(at) = index_of(index, bound)? else {
                return Ok(());
            };
            let list = present(row)?;
            if list.is_empty() {
                return invalid("Attempted to delete an element from a list which is null");
            }
            row.element(id, place_at(list, at)?, None, None);
            Ok(())
        }
    }
}

/// The value of a term that changes nothing where it is null or unset.
fn value<'v>(term: &'v Term, bound: &Bound<'v>) -> Result<Option<Cow<'v, [u8]>>> {
    Ok(match term.evaluate(bound)? {
        Evaluated::Value(value) => Some(value),
        Evaluated::Null | Evaluated::Unset => None,
    })
}

/// An index; none where it is unset.
fn index_of(term: &Term, bound: &Bound<'_>) -> Result<Option<i32>> {
    match term.evaluate(bound)? {
        Evaluated::Null => invalid("Invalid null value for list index"),
        Evaluated::Unset => Ok(None),
        Evaluated::Value(bytes) => match bytes[..].try_into() {
            Ok(bytes) => Ok(Some(i32::from_be_bytes(bytes))),
            Err(_) => invalid("Invalid empty value for list index"),
        },
    }
}

/// A counter's value, or what is added to it.
fn number(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_be_bytes)
}

fn place_at(list: Present, at: i32) -> Result<Vec<u8>> {
    let size = list.len();
    let place = usize::try_from(at).ok();
    match place.and_then(|place| list.into_iter().nth(place)) {
        Some((place, _)) => Ok(place),
        None => invalid(format!(
            "List index {at} out of bound, list has size {size}"
        )),
    }
}

fn elements_of<'r>(row: &RowView<'r>, column: u32) -> Result<Vec<LiveElement<'r>>> {
    let Some(LiveColumn::Collection(list)) = row.column(column).map_err(of_row)? else {
        return Ok(Vec::new());
    };
    let element = |element: std::result::Result<LiveElement<'r>, _>| {
        interrupt::charge(1)?;
        element.map_err(of_row)
    };
    list.elements().map(element).collect()
}

/// Whether a value equals one of others, which ascend.
fn is_among(ty: &CqlType, others: &[&[u8]], value: &[u8]) -> Result<bool> {
    let (mut from, mut to) = (0, others.len());
    while from < to {
        let middle = from.midpoint(to);
        let other = others[middle];
        interrupt::charge_bytes(other.len().min(value.len()))?;
        match ty.try_compare(other, value, &mut interrupt::charge_bytes)? {
            Ordering::Less => from = middle + 1,
            Ordering::Equal => return Ok(true),
            Ordering::Greater => to = middle,
        }
    }
    Ok(false)
}

/// Adds all parts of a collection or user-defined type.
fn add(
    ty: &CqlType,
    column: u32,
    value: &[u8],
    end: ListEnd,
    (came_us, operation): (i64, &mut u32),
    row: &mut RowBuffer<'_>,
) -> Result<()> {
    let place = |at, element: &[u8]| list_place(end, came_us, *operation, at, element);
    for part in try_parts(ty, value, place, interrupt::charge_bytes).map_err(of_type)? {
        let part = part.map_err(of_encoding)?;
        interrupt::charge_bytes(part.value.len())?;
        let original = part.original.map(<[u8]>::to_vec);
        let value = Some(Cow::Owned(part.value.to_vec()));
        row.element(column, part.path, original, value);
    }
    if matches!(ty, CqlType::List { .. }) {
        *operation = operation.wrapping_add(1);
    }
    Ok(())
}

/// What paths of a set or map are made of.
fn key_type(ty: &CqlType) -> Option<&CqlType> {
    match ty {
        CqlType::Set { element: ty, .. } | CqlType::Map { key: ty, .. } => Some(ty),
        _ => None,
    }
}

fn path(ty: &CqlType, key: &[u8]) -> Result<Vec<u8>> {
    interrupt::charge_bytes(key.len())?;
    let mut path = Vec::new();
    let encoded = ordered::try_encode(ty, key, &mut path, &mut interrupt::charge_bytes);
    encoded.map_err(of_encoding)?;
    Ok(path)
}

/// The key or member itself, where its path does not say.
fn original(ty: &CqlType, key: &[u8]) -> Result<Option<Vec<u8>>> {
    interrupt::charge_bytes(key.len())?;
    let is_in_path = ordered::try_is_reconstructible(ty, key, &mut interrupt::charge_bytes)?;
    Ok((!is_in_path).then(|| key.to_vec()))
}

fn some(element: std::result::Result<Option<&[u8]>, TypeError>) -> Result<&[u8]> {
    match element.map_err(of_type)? {
        Some(element) => Ok(element),
        None => invalid("null is not supported inside collections"),
    }
}
