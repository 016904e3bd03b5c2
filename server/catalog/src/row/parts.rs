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

/// The parts of a value, which `ty` validates, in its order: by ascending path, if sets and
/// maps have their [normal form](CqlType::normalize). `list_place` says the path of an element
/// of a list, from its number from 0 and its value. A type of one cell has no parts.
///
/// # Errors
/// Where the value is none of the type, or has a null in a collection.
pub fn parts<'v>(
    ty: &CqlType,
    value: &'v [u8],
    list_place: impl Fn(u32, &[u8]) -> Vec<u8>,
) -> Result<Vec<Part<'v>>, TypeError> {
    let keyed = |ty: &CqlType, key: &'v [u8], value: &'v [u8]| -> Result<Part<'v>, TypeError> {
        let mut path = Vec::new();
        ordered::encode(ty, key, &mut path)?;
        Ok(Part {
            path,
            original: (!ordered::is_reconstructible(ty, key)).then_some(key),
            value,
        })
    };
    let mut parts = Vec::new();
    match ty {
        CqlType::List { .. } => {
            for (at, element) in elements::elements(value)?.enumerate() {
                let value = some(element)?;
                let too_many = |_| TypeError::new("A collection of 2^32 elements or more");
                let at = u32::try_from(at).map_err(too_many)?;
                parts.push(Part {
                    path: list_place(at, value),
                    original: None,
                    value,
                });
            }
        }
        CqlType::Set { element: ty, .. } => {
            for member in elements::elements(value)? {
                parts.push(keyed(ty, some(member)?, &[])?);
            }
        }
        CqlType::Map { key: ty, .. } => {
            let mut entries = elements::pairs(value)?;
            while let (Some(key), Some(value)) = (entries.next(), entries.next()) {
                parts.push(keyed(ty, some(key)?, some(value)?)?);
            }
        }
        CqlType::Udt { .. } => {
            for (number, field) in (0_u16..).zip(elements::components(value)) {
                if let Some(value) = field? {
                    parts.push(Part {
                        path: number.to_be_bytes().to_vec(),
                        original: None,
                        value,
                    });
                }
            }
        }
        _ => {}
    }
    Ok(parts)
}

fn some(element: Result<Option<&[u8]>, TypeError>) -> Result<&[u8], TypeError> {
    element?.ok_or_else(|| TypeError::new("null is not supported inside collections"))
}
