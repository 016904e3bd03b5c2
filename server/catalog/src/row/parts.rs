//! A value of a type that lies in several cells, as what goes into these.

use crate::key::ordered;
use crate::types::{CqlType, TypeError, elements};

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
pub type Parts<'p, 'v> = Box<dyn Iterator<Item = Result<Part<'v>, TypeError>> + 'p>;

/// The parts of a value, which `ty` validates, in its order: by ascending path, if sets and
/// maps have their [normal form](CqlType::normalize). `list_place` says the path of an element
/// of a list, from its number from 0 and its value. A type of one cell has no parts.
///
/// The iterator computes the path of a part in the step that returns this part: the path of one
/// `decimal` takes some milliseconds, and the caller may stop in between.
///
/// # Errors
/// Where the value is none of the type, or has a null in a collection.
pub fn parts<'p, 'v: 'p>(
    ty: &'p CqlType,
    value: &'v [u8],
    list_place: impl Fn(u32, &[u8]) -> Vec<u8> + 'p,
) -> Result<Parts<'p, 'v>, TypeError> {
    let parts: Parts<'p, 'v> = match ty {
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
            Box::new(elements::elements(value)?.enumerate().map(part))
        }
        CqlType::Set { element: ty, .. } => {
            let part = move |member: Element<'v>| keyed(ty, some(member)?, &[]);
            Box::new(elements::elements(value)?.map(part))
        }
        CqlType::Map { key: ty, .. } => {
            let mut entries = elements::pairs(value)?;
            let entry = move || Some((entries.next()?, entries.next()?));
            let part =
                move |(key, value): (Element<'v>, Element<'v>)| keyed(ty, some(key)?, some(value)?);
            Box::new(std::iter::from_fn(entry).map(part))
        }
        CqlType::Udt { .. } => {
            let part = |(number, field): (u16, Element<'v>)| {
                let part = |value| Part {
                    path: number.to_be_bytes().to_vec(),
                    original: None,
                    value,
                };
                field.map(|value| value.map(part)).transpose()
            };
            Box::new((0_u16..).zip(elements::components(value)).filter_map(part))
        }
        _ => Box::new(std::iter::empty()),
    };
    Ok(parts)
}

/// An element as it is read: a null is `None`.
type Element<'v> = Result<Option<&'v [u8]>, TypeError>;

fn keyed<'v>(ty: &CqlType, key: &'v [u8], value: &'v [u8]) -> Result<Part<'v>, TypeError> {
    let mut path = Vec::new();
    ordered::encode(ty, key, &mut path)?;
    Ok(Part {
        path,
        original: (!ordered::is_reconstructible(ty, key)).then_some(key),
        value,
    })
}

fn some(element: Result<Option<&[u8]>, TypeError>) -> Result<&[u8], TypeError> {
    element?.ok_or_else(|| TypeError::new("null is not supported inside collections"))
}
