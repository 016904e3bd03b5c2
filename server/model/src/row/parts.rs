//! Splits a value of a type with several cells into the content of these cells.

use std::convert::Infallible;

use crate::key::ordered::{self, EncodeError};
use crate::types::{Charge, CqlType, TypeError, elements};

/// An element of a collection, or a field of a user-defined type: the content of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'v> {
    /// The path, which identifies and sorts elements: see [`Element::path`](super::Element::path).
    pub path: Vec<u8>,
    /// The map's key or the set's member as it was written, if it cannot be decoded from `path`.
    pub original: Option<&'v [u8]>,
    /// The value of the cell; empty for an element of a set.
    pub value: &'v [u8],
}

/// An iterator over the elements of a collection, or the fields of a user-defined type.
pub type Parts<'p, 'v, E> = Box<dyn Iterator<Item = Result<Part<'v>, E>> + 'p>;

/// Returns the parts of a valid value of `ty` in the order of the value: the elements of a
/// collection, or the fields of a user-defined type that are not null. They ascend by path (the
/// stored sort key of a part) if sets and maps have their [normal form](CqlType::normalize).
/// `list_place` returns the path of a list's element, from its index and its value. A value of a
/// type that is stored as one cell has no parts.
///
/// # Errors
/// If the value is invalid for the type, a collection contains a null, or a key or member is or
/// contains a decimal that is too long for an ordered form. Most errors are found during the
/// iteration: the iterator then returns the error in place of the part.
pub fn parts<'p, 'v: 'p>(
    ty: &'p CqlType,
    value: &'v [u8],
    list_place: impl Fn(u32, &[u8]) -> Vec<u8> + 'p,
) -> Result<Parts<'p, 'v, TypeError>, TypeError> {
    let parts = try_parts(ty, value, list_place, |_| Ok::<_, Infallible>(()))?;
    Ok(Box::new(parts.map(|part| match part {
        Ok(part) => Ok(part),
        Err(EncodeError::Value(error) | EncodeError::TooLong(error)) => Err(error),
    })))
}

/// Returns the elements or fields of a value like [`parts`], but can be stopped, because their
/// paths (stored sort keys) may take long to compute. `list_place` returns the path of a list's
/// element, from its index and its value.
///
/// The iterator computes the path of a part in the step that returns this part, and calls `charge`
/// as [`ordered::try_encode`] does. If `charge` returns an error, the iterator returns this error
/// in place of the part.
///
/// # Errors
/// The errors of [`parts`], also from the iterator.
pub fn try_parts<'p, 'v: 'p, E: 'p>(
    ty: &'p CqlType,
    value: &'v [u8],
    list_place: impl Fn(u32, &[u8]) -> Vec<u8> + 'p,
    mut charge: impl FnMut(usize) -> Result<(), E> + 'p,
) -> Result<Parts<'p, 'v, EncodeError<E>>, TypeError> {
    let parts: Parts<'p, 'v, EncodeError<E>> = match ty {
        CqlType::List { .. } => {
            let part = move |(at, element): (usize, Element<'v>)| -> Result<Part<'v>, TypeError> {
                let value = some(element)?;
                let too_many = |_| TypeError::new("A collection of 2^32 elements or more");
                let at = u32::try_from(at).map_err(too_many)?;
                Ok(Part {
                    path: list_place(at, value),
                    original: None,
                    value,
                })
            };
            let parts = elements::elements(value)?.enumerate().map(part);
            Box::new(parts.map(|part| part.map_err(EncodeError::Value)))
        }
        CqlType::Set { element: ty, .. } => {
            let part = move |member: Element<'v>| keyed_part(ty, some(member)?, &[], &mut charge);
            Box::new(elements::elements(value)?.map(part))
        }
        CqlType::Map { key: ty, .. } => {
            let mut entries = elements::pairs(value)?;
            let entry = move || Some((entries.next()?, entries.next()?));
            let part = move |(key, value): (Element<'v>, Element<'v>)| {
                keyed_part(ty, some(key)?, some(value)?, &mut charge)
            };
            Box::new(std::iter::from_fn(entry).map(part))
        }
        CqlType::Udt { .. } => {
            let part = |(number, field): (u16, Element<'v>)| {
                let part = |value| Part {
                    path: number.to_be_bytes().to_vec(),
                    original: None,
                    value,
                };
                let field = field.map(|value| value.map(part));
                field.map_err(EncodeError::Value).transpose()
            };
            Box::new((0_u16..).zip(elements::components(value)).filter_map(part))
        }
        _ => Box::new(std::iter::empty()),
    };
    Ok(parts)
}

/// The serialized bytes of one part of a value: of an element of a list or set, of a key or a value
/// of a map, or of a field of a user-defined type. `None` is null. An error if the value is
/// malformed at this part.
type Element<'v> = Result<Option<&'v [u8]>, TypeError>;

/// Returns the part of a set or map for one valid member or key; `value` is the map's value, and
/// empty for a set. Reports the work to the callback `charge`, as [`ordered::try_encode`] does.
///
/// # Errors
/// If the member or key has no ordered form; the error of `charge`.
pub fn keyed_part<'v, E>(
    ty: &CqlType,
    key: &'v [u8],
    value: &'v [u8],
    charge: Charge<'_, E>,
) -> Result<Part<'v>, EncodeError<E>> {
    charge(key.len()).map_err(EncodeError::Charge)?;
    let mut path = Vec::new();
    ordered::try_encode(ty, key, &mut path, charge)?;
    let is_in_path = ordered::try_is_reconstructible(ty, key, charge);
    let is_in_path = is_in_path.map_err(EncodeError::Charge)?;
    Ok(Part {
        path,
        original: (!is_in_path).then_some(key),
        value,
    })
}

fn some(element: Result<Option<&[u8]>, TypeError>) -> Result<&[u8], TypeError> {
    element?.ok_or_else(|| TypeError::new("null is not supported inside collections"))
}
