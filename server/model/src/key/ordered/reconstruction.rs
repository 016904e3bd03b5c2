//! The values that need no copy beside their ordered form, because the form restores them.

use std::convert::Infallible;

use crate::types::elements::{Elements, components, elements, pairs};
use crate::types::number::{has_least_scale, minimal};
use crate::types::{Charge, CqlType, TypeError};

/// Returns whether [`decode`](super::decode) restores `value` byte for byte from its ordered form, so that a key
/// that contains this form is enough to store the value.
///
/// True for all text, blobs, integers of fixed length, dates, times, durations, uuids and
/// addresses. False for a `boolean` that is neither 0 nor 1, a NaN of unusual bits, a `varint` with
/// redundant sign bytes, a `decimal` that ends in zeros (1.00 decodes to 1), a tuple whose last
/// components are missing, a tuple with a null of another length than -1, and every value that
/// contains one of these.
pub fn is_reconstructible(ty: &CqlType, value: &[u8]) -> bool {
    let Ok(is_so) = try_is_reconstructible(ty, value, &mut |_| Ok::<_, Infallible>(()));
    is_so
}

/// Returns the same as [`is_reconstructible`], but can be stopped: reports the work to the callback
/// `charge` before each part of a collection or tuple, and ends with the first error that `charge`
/// returns. It computes neither the ordered forms of values nor the digits of decimals, which would
/// take longer.
///
/// # Errors
/// The error of `charge`.
pub fn try_is_reconstructible<E>(
    ty: &CqlType,
    value: &[u8],
    charge: Charge<'_, E>,
) -> Result<bool, E> {
    if always_reconstructible(ty) {
        return Ok(true);
    }
    Ok(match ty {
        CqlType::Counter => false,
        _ if value.is_empty() => true,
        CqlType::Boolean => matches!(value, [0 | 1]),
        CqlType::Float => <[u8; 4]>::try_from(value).is_ok_and(|bytes| {
            !f32::from_be_bytes(bytes).is_nan() || bytes == f32::NAN.to_be_bytes()
        }),
        CqlType::Double => <[u8; 8]>::try_from(value).is_ok_and(|bytes| {
            !f64::from_be_bytes(bytes).is_nan() || bytes == f64::NAN.to_be_bytes()
        }),
        CqlType::Varint => minimal(value).len() == value.len(),
        CqlType::Decimal => has_least_scale(value),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            are_reconstructible(elements(value), &[element], charge)?
        }
        CqlType::Map { key, value: of, .. } => {
            are_reconstructible(pairs(value), &[key, of], charge)?
        }
        CqlType::Tuple(_) | CqlType::Udt { .. } => is_reconstructible_tuple(ty, value, charge)?,
        // All remaining types are of fixed length or plain bytes.
        _ => true,
    })
}

fn are_reconstructible<E>(
    parts: Result<Elements<'_>, TypeError>,
    types: &[&CqlType],
    charge: Charge<'_, E>,
) -> Result<bool, E> {
    let Ok(mut parts) = parts else {
        return Ok(false);
    };
    for (part, ty) in parts.by_ref().zip(types.iter().cycle()) {
        let Ok(Some(part)) = part else {
            return Ok(false);
        };
        charge(part.len())?;
        if !try_is_reconstructible(ty, part, charge)? {
            return Ok(false);
        }
    }
    Ok(parts.rest().is_empty())
}

/// Returns whether a tuple is reconstructible: each component is, no component is missing, and each
/// null has the length -1.
fn is_reconstructible_tuple<E>(
    ty: &CqlType,
    value: &[u8],
    charge: Charge<'_, E>,
) -> Result<bool, E> {
    let mut parts = components(value);
    for ty in ty.components() {
        let before = parts.rest();
        let is_so = match parts.next() {
            None | Some(Err(_)) => false,
            Some(Ok(None)) => before.starts_with(&(-1_i32).to_be_bytes()),
            Some(Ok(Some(part))) => {
                charge(part.len())?;
                try_is_reconstructible(ty, part, charge)?
            }
        };
        if !is_so {
            return Ok(false);
        }
    }
    Ok(parts.rest().is_empty())
}

/// Returns whether every value of the type is [reconstructible](is_reconstructible).
pub fn always_reconstructible(ty: &CqlType) -> bool {
    match ty {
        CqlType::Ascii
        | CqlType::Bigint
        | CqlType::Blob
        | CqlType::Date
        | CqlType::Duration
        | CqlType::Inet
        | CqlType::Int
        | CqlType::Smallint
        | CqlType::Text
        | CqlType::Time
        | CqlType::Timestamp
        | CqlType::Timeuuid
        | CqlType::Tinyint
        | CqlType::Uuid => true,
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            always_reconstructible(element)
        }
        CqlType::Map { key, value, .. } => {
            always_reconstructible(key) && always_reconstructible(value)
        }
        _ => false,
    }
}
