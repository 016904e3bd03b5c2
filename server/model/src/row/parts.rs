//! A value of a type that lies in several cells, as what goes into these.

use std::convert::Infallible;

use crate::key::ordered::{self, EncodeError};
use crate::types::{Charge, CqlType, TypeError, elements};

/// One of them: an element of a collection, or a field of a user-defined type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'v> {
    /// Which one it is: see [`Element::path`](super::Element::path).
    pub path: Vec<u8>,
    /// The key or member itself, where its path does not say.
    pub original: Option<&'v [u8]>,
    /// What goes into its cell; nothing of a set's element.
    pub value: &'v [u8],
}

/// The parts of a value, one after the other.
pub type Parts<'p, 'v, E> = Box<dyn Iterator<Item = Result<Part<'v>, E>> + 'p>;

/// The parts of a value, which `ty` validates, in its order: by ascending path, if sets and
/// maps have their [normal form](CqlType::normalize). `list_place` says the path of an element
/// of a list, from its number from 0 and its value. A type of one cell has no parts.
///
/// # Errors
/// Where the value is none of the type, or has a null in a collection.
pub fn parts<'p, 'v: 'p>(
    ty: &'p CqlType,
    value: &'v [u8],
    list_place: impl Fn(u32, &[u8]) -> Vec<u8> + 'p,
) -> Result<Parts<'p, 'v, TypeError>, TypeError> {
    let parts = try_parts(ty, value, list_place, |_| Ok::<_, Infallible>(()))?;
    Ok(Box::new(parts.map(|part| match part {
        Ok(part) => Ok(part),
        Err(EncodeError::Value(error)) => Err(error),
    })))
}

/// Returns the parts as [`parts`] does, of a value whose paths may take long to compute.
///
/// The iterator computes the path of a part in the step that returns this part, and calls `charge` as
/// [`ordered::try_encode`] does. An error of `charge` is that of the part.
///
/// # Errors
/// Those of [`parts`].
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

/// An element as it is read: a null is `None`.
type Element<'v> = Result<Option<&'v [u8]>, TypeError>;

/// Returns the part of a set or map for one member or key, which `ty` validates. It calls `charge` as
/// [`ordered::try_encode`] does.
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
