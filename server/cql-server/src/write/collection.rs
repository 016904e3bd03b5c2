//! Operations on one column, as cells and elements of a row.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use ebb_model::row::{
    ListEnd, LiveColumn, LiveElement, Part, RowView, keyed_part, list_place, try_parts,
};
use ebb_model::types::{CqlType, TypeError, elements, sort_once};
use ebb_tables::write::RowBuffer;

use super::operation::Operation;
use super::plan::Change;
use crate::analyse::markers::Bound;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, invalid, of_encoding, of_row, of_type};
use crate::interrupt;

/// The elements of a list before a change: the stored elements, as changed by earlier changes of
/// the same statement. Maps the path of each element's cell to its value; the paths sort in the
/// order of the elements.
type Present = BTreeMap<Vec<u8>, Vec<u8>>;

impl Operation {
    /// Returns whether the operation has to read the stored value of its column.
    pub(super) fn reads(&self) -> bool {
        self.reads_list() || matches!(self, Self::Count { .. })
    }

    /// Returns whether the operation has to read a stored list.
    pub(super) fn reads_list(&self) -> bool {
        matches!(
            self,
            Self::RemoveValues(_) | Self::SetIndex { .. } | Self::RemoveIndex(_)
        )
    }

    /// Returns whether the operation adds a value to its column of the type `ty`, with these bound
    /// values. Otherwise it deletes values or changes nothing.
    ///
    /// # Errors
    /// Cassandra's error for an invalid value.
    pub(super) fn sets_value(&self, ty: &CqlType, bound: &Bound<'_>) -> Result<bool> {
        let term = match self {
            Self::Set(term)
            | Self::Count { by: term, .. }
            | Self::Prepend(term)
            | Self::Add(term)
            | Self::SetIndex { value: term, .. }
            | Self::SetKey { value: term, .. }
            | Self::SetField { value: term, .. } => term,
            Self::Remove
            | Self::RemoveValues(_)
            | Self::RemoveIndex(_)
            | Self::RemoveKeys(_)
            | Self::RemoveKey(_)
            | Self::RemoveField(_) => return Ok(false),
        };
        let Some(value) = value(term, bound)? else {
            return Ok(false);
        };
        let is_whole = matches!(self, Self::Set(_) | Self::Prepend(_) | Self::Add(_));
        if is_whole && ty.is_multi_cell() && ty.is_collection() {
            // The elements are the values, and an empty collection has none.
            return Ok(elements::count(&value).map_err(of_type)? > 0);
        }
        Ok(true)
    }
}

/// Adds the effect of a change to a row. `before` is the stored row; it may be `None` if no
/// operation of the statement has to read it. `came` has the time of the request in microseconds,
/// and the number of operations of the request that have added to lists so far. The [sort
/// keys](list_place) of new list elements contain both.
///
/// # Errors
/// Cassandra's errors, for null values where null is not permitted, and for indexes beyond the
/// list.
pub(super) fn apply<'v>(
    change: &'v Change,
    bound: &Bound<'v>,
    before: Option<&RowView<'_>>,
    came: (i64, &mut u32),
    row: &mut RowBuffer<'v>,
) -> Result<()> {
    let (id, ty) = (change.column.id.0, &change.column.ty);
    // Each change sees the effects of the changes before it.
    let present = |row: &RowBuffer<'_>| -> Result<Present> {
        let Some(before) = before else {
            return Ok(Present::new());
        };
        row.elements_after(&elements_of(before, id)?, id, || interrupt::charge(1))
    };
    match &change.operation {
        Operation::Set(term) => {
            let Some(value) = term.evaluate(bound)?.unless_unset() else {
                return Ok(());
            };
            if !ty.is_multi_cell() {
                row.cell(id, value);
                return Ok(());
            }
            // The deletion must not hide the new elements, which have the timestamp of the write:
            // so it covers older timestamps only.
            row.clear_older(id);
            if let Some(value) = value {
                add(ty, id, &value, ListEnd::Back, came, row)?;
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
            let signed = if *is_negative {
                by.checked_neg()
            } else {
                Some(by)
            };
            let Some(signed) = signed else {
                return invalid(format!(
                    "The negation of {by} overflows supported counter precision (signed 8 bytes \
                     integer)"
                ));
            };
            let there = match before {
                Some(before) => before.cell(id).map_err(of_row)?,
                None => None,
            };
            // An earlier assignment of the statement may have counted already, as in
            // `SET c = c + 1, c = c + 2`. A counter without a value counts from 0. The sum wraps as
            // Cassandra's does. The cell has the sum itself: there is a single copy, and the transaction
            // loses no increment of others.
            let there = row.value(id).or(there.map(|cell| cell.value));
            let sum = there.and_then(number).unwrap_or(0).wrapping_add(signed);
            row.cell(id, Some(Cow::Owned(sum.to_be_bytes().to_vec())));
        }
        // Unlike the deletion of `Set`, this one covers the timestamp of the write itself: no new
        // elements follow.
        Operation::Remove if ty.is_multi_cell() => row.clear(id),
        Operation::Remove => row.cell(id, None),
        Operation::Add(term) => {
            if let Some(value) = value(term, bound)? {
                add(ty, id, &value, ListEnd::Back, came, row)?;
            }
        }
        Operation::Prepend(term) => {
            if let Some(value) = value(term, bound)? {
                add(ty, id, &value, ListEnd::Front, came, row)?;
            }
        }
        Operation::RemoveKeys(term) => {
            let (Some(keys), Some(ty)) = (value(term, bound)?, key_type(ty)) else {
                return Ok(());
            };
            for key in elements::elements(&keys).map_err(of_type)? {
                row.element(id, part(ty, some(key)?)?.path, None, None);
            }
        }
        Operation::SetKey { key, value } => {
            let key = key.evaluate(bound)?;
            let key = key.required(|no| format!("Invalid {no} map key"))?;
            let value = value.evaluate(bound)?.unless_unset();
            // A null value deletes the entry.
            if let (Some(value), Some(ty)) = (value, key_type(ty)) {
                let part = part(ty, &key)?;
                row.element(id, part.path, part.original.map(<[u8]>::to_vec), value);
            }
        }
        Operation::RemoveKey(term) => {
            let what = match ty {
                CqlType::Set { .. } => "set element",
                _ => "map key",
            };
            let key = term.evaluate(bound)?;
            let key = key.required(|no| format!("Invalid {no} {what}"))?;
            if let Some(ty) = key_type(ty) {
                row.element(id, part(ty, &key)?.path, None, None);
            }
        }
        Operation::SetField { field, value } => {
            if let Some(value) = value.evaluate(bound)?.unless_unset() {
                row.element(id, field.to_be_bytes().to_vec(), None, value);
            }
        }
        Operation::RemoveField(field) => {
            row.element(id, field.to_be_bytes().to_vec(), None, None);
        }
        Operation::RemoveValues(term) => {
            let Some(values) = value(term, bound)? else {
                return Ok(());
            };
            // Only columns of lists have this operation.
            let CqlType::List { element, .. } = ty else {
                return Ok(());
            };
            let gone = elements::elements(&values).map_err(of_type)?;
            let gone = gone
                .collect::<Result<Vec<_>, TypeError>>()
                .map_err(of_type)?;
            // A null removes nothing, because no element of a list is null.
            let gone: Vec<&[u8]> = gone.into_iter().flatten().collect();
            // Sorted, so that long lists do not take the product of their lengths.
            let gone = sort_once(element, gone, |one| one, &mut interrupt::charge_bytes)?;
            for (place, value) in present(row)? {
                if is_among(element, &gone, &value)? {
                    row.element(id, place, None, None);
                }
            }
        }
        Operation::SetIndex { index, value } => {
            // As in Cassandra, an unset index is an error here, but not for `DELETE l[i]` below.
            let Some(at) = index_of(index, bound)? else {
                return invalid("Invalid unset value for list index");
            };
            let value = value.evaluate(bound)?.unless_unset();
            // As in Cassandra, the element must exist even if an unset value leaves it as it is.
            let list = present(row)?;
            if list.is_empty() {
                return invalid("Attempted to set an element on a list which is null");
            }
            let place = place_at(list, at)?;
            if let Some(value) = value {
                row.element(id, place, None, value);
            }
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
        }
    }
    Ok(())
}

/// Evaluates a term. Returns `None` for null and unset values: an operation with such a value
/// changes nothing.
fn value<'v>(term: &'v Term, bound: &Bound<'v>) -> Result<Option<Cow<'v, [u8]>>> {
    Ok(term.evaluate(bound)?.unless_unset().flatten())
}

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

/// Decodes the value of a counter, or the number that is added to a counter; `None` if the bytes
/// are not eight.
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
    let element = |element: Result<LiveElement<'r>, _>| {
        interrupt::charge(1)?;
        element.map_err(of_row)
    };
    list.elements().map(element).collect()
}

/// Returns whether `value` equals one of `others`, which are in ascending order.
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

/// Adds each element or field of a value to a row, as a separate cell of the column. New elements
/// of a list are added at `end`. Their [sort keys](list_place) contain `came_us`, the timestamp of
/// the request in microseconds, and `operation`, the number of earlier operations of the request
/// that have added to lists.
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

/// Returns the type of a set's members or of a map's keys, which make up the paths of the elements;
/// `None` for other types.
pub(super) fn key_type(ty: &CqlType) -> Option<&CqlType> {
    match ty {
        CqlType::Set { element: ty, .. } | CqlType::Map { key: ty, .. } => Some(ty),
        _ => None,
    }
}

/// Returns the path under which a member of a set, or an entry of a map with this key, is stored.
/// If the member or key cannot be decoded from the path, the result also contains the member or
/// key.
fn part<'k>(ty: &CqlType, key: &'k [u8]) -> Result<Part<'k>> {
    keyed_part(ty, key, &[], &mut interrupt::charge_bytes).map_err(of_encoding)
}

fn some(element: Result<Option<&[u8]>, TypeError>) -> Result<&[u8]> {
    match element.map_err(of_type)? {
        Some(element) => Ok(element),
        None => invalid("null is not supported inside collections"),
    }
}
