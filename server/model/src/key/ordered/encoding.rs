//! The ordered form of a value.

use std::convert::Infallible;

use num_bigint::Sign;

use super::{EMPTY, NEGATIVE, NULL_PART, PART, POSITIVE, PRESENT, ZERO, flip_sign, to_ascending};
use crate::key::KEY_LEN_MAX;
use crate::types::compare::{SIGN_OF_EACH_BYTE, halves, time_first, uuid_order};
use crate::types::elements::{components, elements, pairs};
use crate::types::number::{DECIMAL_BYTES_MAX, Digits, digits_bytes, is_negative, minimal};
use crate::types::{Charge, CqlType, TypeError};

// Every decimal that fits into a key, in whatever form, is comparable.
const _: () = assert!(DECIMAL_BYTES_MAX == KEY_LEN_MAX);

/// An error of [`try_encode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodeError<E> {
    /// The value is invalid for the type, or the type has no order.
    Value(TypeError),
    /// The value is a valid decimal, or contains one, of more than [`DECIMAL_BYTES_MAX`] bytes.
    TooLong(TypeError),
    /// The error that the callback `charge` returned.
    Charge(E),
}

impl<E> From<TypeError> for EncodeError<E> {
    fn from(error: TypeError) -> Self {
        Self::Value(error)
    }
}

/// Appends the ordered form of a value.
///
/// # Errors
/// If the type has no order, the value is invalid in a way that affects its form (text is not
/// validated), or the value is or contains a decimal of more than [`DECIMAL_BYTES_MAX`] bytes.
pub fn encode(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    match try_encode(ty, value, out, &mut |_| Ok::<_, Infallible>(())) {
        Ok(()) => Ok(()),
        Err(EncodeError::Value(error) | EncodeError::TooLong(error)) => Err(error),
    }
}

/// Appends the ordered form like [`encode`], but can be stopped: reports the work to the callback
/// `charge` before each part of a collection or tuple and before the digits of each decimal, and
/// ends with the first error that `charge` returns. After an error, `out` ends with an incomplete
/// form.
///
/// # Errors
/// The errors of [`encode`] and of `charge`.
pub fn try_encode<E>(
    ty: &CqlType,
    value: &[u8],
    out: &mut Vec<u8>,
    charge: Charge<'_, E>,
) -> Result<(), EncodeError<E>> {
    match ty {
        CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Inet | CqlType::Duration => {
            encode_bytes(value, out);
        }
        CqlType::Tinyint => out.push(fixed::<1>(ty, value)?[0] ^ 0x80),
        CqlType::Smallint => out.extend(flip_sign(fixed::<2>(ty, value)?)),
        // Dates are unsigned. Cassandra compares times by their bytes, so a negative time, which validation
        // accepts, sorts behind those that are not negative.
        CqlType::Date => out.extend(fixed::<4>(ty, value)?),
        CqlType::Time => out.extend(fixed::<8>(ty, value)?),
        CqlType::Counter => {
            return Err(TypeError::new(format!("Values of type {ty} have no order")).into());
        }
        // The types above need no mark for an empty value: either the form of bytes covers it, or the
        // type has no empty value.
        _ if value.is_empty() => out.push(EMPTY),
        CqlType::Boolean => out.push(1 + u8::from(fixed::<1>(ty, value)? != [0])),
        CqlType::Int => {
            out.push(PRESENT);
            out.extend(flip_sign(fixed::<4>(ty, value)?));
        }
        CqlType::Bigint | CqlType::Timestamp => {
            out.push(PRESENT);
            out.extend(flip_sign(fixed::<8>(ty, value)?));
        }
        // All NaNs compare as equal, so they have one form.
        CqlType::Float => {
            let value = f32::from_be_bytes(fixed(ty, value)?);
            let value = if value.is_nan() { f32::NAN } else { value };
            out.push(PRESENT);
            out.extend(to_ascending(value.to_be_bytes()));
        }
        CqlType::Double => {
            let value = f64::from_be_bytes(fixed(ty, value)?);
            let value = if value.is_nan() { f64::NAN } else { value };
            out.push(PRESENT);
            out.extend(to_ascending(value.to_be_bytes()));
        }
        CqlType::Uuid => {
            let (version, high, low) = uuid_order(fixed(ty, value)?);
            // Not the version itself: 0 is the form of the empty value.
            out.push(1 + version);
            out.extend(high.to_be_bytes());
            out.extend(low.to_be_bytes());
        }
        CqlType::Timeuuid => {
            let (high, low) = halves(fixed(ty, value)?);
            out.push(PRESENT);
            out.extend(time_first(high).to_be_bytes());
            out.extend((low ^ SIGN_OF_EACH_BYTE).to_be_bytes());
        }
        CqlType::Varint => encode_varint(minimal(value), out),
        CqlType::Decimal => {
            if value.len() > DECIMAL_BYTES_MAX {
                return Err(EncodeError::TooLong(TypeError::new(format!(
                    "A decimal of {} bytes is longer than a key may be ({DECIMAL_BYTES_MAX})",
                    value.len()
                ))));
            }
            charge(digits_bytes(value.len())).map_err(EncodeError::Charge)?;
            let digits = Digits::of(value).ok_or_else(|| invalid(ty, value))?;
            encode_decimal(&digits, out);
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            encode_parts(elements(value)?, &[element], out, charge)?;
        }
        CqlType::Map { key, value: of, .. } => {
            encode_parts(pairs(value)?, &[key, of], out, charge)?;
        }
        CqlType::Tuple(_) | CqlType::Udt { .. } => encode_tuple(ty, value, out, charge)?,
    }
    Ok(())
}

fn invalid(ty: &CqlType, value: &[u8]) -> TypeError {
    match ty.validate(value) {
        Err(e) => e,
        Ok(()) => TypeError::new(format!("{} bytes are no {ty}", value.len())),
    }
}

fn fixed<const N: usize>(ty: &CqlType, value: &[u8]) -> Result<[u8; N], TypeError> {
    value.try_into().map_err(|_| invalid(ty, value))
}

fn encode_bytes(mut value: &[u8], out: &mut Vec<u8>) {
    out.reserve(value.len() + 2);
    while let Some(zero) = value.iter().position(|&b| b == 0) {
        out.extend(&value[..=zero]);
        out.push(1);
        value = &value[zero + 1..];
    }
    out.extend(value);
    out.extend([0, 0]);
}

fn encode_varint(value: &[u8], out: &mut Vec<u8>) {
    let negative = is_negative(value);
    out.push(if negative { NEGATIVE } else { ZERO });
    let mask = if negative { 0xff } else { 0 };
    if value.len() < 0xff {
        out.push(value.len() as u8 ^ mask);
    } else {
        let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
        out.push(0xff ^ mask);
        out.extend(len.to_be_bytes().map(|b| b ^ mask));
    }
    out.extend(value);
}

fn encode_decimal(value: &Digits, out: &mut Vec<u8>) {
    let (first, mask) = match value.sign {
        Sign::Minus => (NEGATIVE, 0xff),
        Sign::NoSign => return out.push(ZERO),
        Sign::Plus => (POSITIVE, 0),
    };
    out.push(first);
    out.extend(flip_sign(value.exponent.to_be_bytes()).map(|b| b ^ mask));
    for pair in value.digits.chunks(2) {
        let two = 10 * pair[0] + pair.get(1).copied().unwrap_or(0);
        out.push((1 + two) ^ mask);
    }
    out.push(mask);
}

fn encode_parts<'a, E>(
    parts: impl Iterator<Item = Result<Option<&'a [u8]>, TypeError>>,
    types: &[&CqlType],
    out: &mut Vec<u8>,
    charge: Charge<'_, E>,
) -> Result<(), EncodeError<E>> {
    out.push(PRESENT);
    for (part, ty) in parts.zip(types.iter().cycle()) {
        let part = part?.ok_or_else(|| TypeError::new("Null value read when not allowed"))?;
        out.push(PRESENT);
        charge(part.len()).map_err(EncodeError::Charge)?;
        try_encode(ty, part, out, charge)?;
    }
    out.push(EMPTY);
    Ok(())
}

fn encode_tuple<E>(
    ty: &CqlType,
    value: &[u8],
    out: &mut Vec<u8>,
    charge: Charge<'_, E>,
) -> Result<(), EncodeError<E>> {
    out.push(PRESENT);
    let mut nulls = 0;
    for (part, ty) in components(value).zip(ty.components()) {
        match part? {
            Some(part) => {
                out.extend(std::iter::repeat_n(NULL_PART, nulls));
                nulls = 0;
                out.push(PART);
                charge(part.len()).map_err(EncodeError::Charge)?;
                try_encode(ty, part, out, charge)?;
            }
            None => nulls += 1,
        }
    }
    out.push(EMPTY);
    Ok(())
}
