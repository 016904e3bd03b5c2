//! Values from their ordered forms.

use std::convert::Infallible;

use num_bigint::Sign;

use super::{
    EMPTY, Malformed, NEGATIVE, NULL_PART, PART, POSITIVE, Reader, ZERO, flip_sign, from_ascending,
};
use crate::types::compare::{SIGN_OF_EACH_BYTE, time_last};
use crate::types::elements::write_element;
use crate::types::number::{Digits, is_negative};
use crate::types::{Charge, CqlType};

/// An error of decoding stored bytes. `F` is the type that describes damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError<F, E> {
    /// The bytes are damaged.
    Damaged(F),
    /// The error that the caller's callback `charge` returned, which ended the decoding.
    Charge(E),
}

impl<F, E> From<F> for DecodeError<F, E> {
    fn from(damage: F) -> Self {
        Self::Damaged(damage)
    }
}

impl<F, E> DecodeError<F, E> {
    /// Returns the error with another description of the damage.
    pub fn map_damage<G>(self, describe: impl FnOnce(F) -> G) -> DecodeError<G, E> {
        match self {
            Self::Damaged(damage) => DecodeError::Damaged(describe(damage)),
            Self::Charge(error) => DecodeError::Charge(error),
        }
    }
}

/// Decodes one value off the front: the encoded value itself if it is
/// [reconstructible](super::is_reconstructible), otherwise another value that compares as equal.
///
/// Reports the work to the callback `charge` before it computes a decimal from its digits, as
/// [`try_encode`](super::try_encode) does.
///
/// # Errors
/// If the bytes are not an ordered form of the type; the error of `charge`.
pub fn decode<E>(
    ty: &CqlType,
    reader: &mut Reader<'_>,
    charge: Charge<'_, E>,
) -> Result<Vec<u8>, DecodeError<Malformed, E>> {
    read(ty, reader, &mut |digits: &Digits| digits.to_decimal(charge))
}

/// Skips one value at the front. Does not compute decimals from their digits, so the time is linear
/// in the number of bytes.
///
/// # Errors
/// If the bytes are not an ordered form of the type.
pub fn skip(ty: &CqlType, reader: &mut Reader<'_>) -> Result<(), Malformed> {
    match read(ty, reader, &mut |_| Ok::<_, Infallible>(Some(Vec::new()))) {
        Ok(_) => Ok(()),
        Err(DecodeError::Damaged(malformed)) => Err(malformed),
    }
}

/// A callback that returns the `decimal` of a number, or `None` if no decimal has its exponent.
type OfDigits<'c, E> = &'c mut dyn FnMut(&Digits) -> Result<Option<Vec<u8>>, E>;

/// Reads one value off the front. A decimal becomes the bytes that the callback `decimal` returns
/// for its digits.
fn read<E>(
    ty: &CqlType,
    reader: &mut Reader<'_>,
    decimal: OfDigits<'_, E>,
) -> Result<Vec<u8>, DecodeError<Malformed, E>> {
    Ok(match ty {
        CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Inet | CqlType::Duration => {
            decode_bytes(reader)?
        }
        CqlType::Tinyint => flip_sign(reader.array::<1>()?).to_vec(),
        CqlType::Smallint => flip_sign(reader.array::<2>()?).to_vec(),
        CqlType::Date => reader.array::<4>()?.to_vec(),
        CqlType::Time => reader.array::<8>()?.to_vec(),
        CqlType::Counter => reader.fail("a type without order")?,
        CqlType::Boolean => match reader.byte()? {
            EMPTY => Vec::new(),
            truth @ (1 | 2) => vec![truth - 1],
            _ => reader.fail("an unknown first byte")?,
        },
        CqlType::Uuid => decode_uuid(reader)?,
        CqlType::Varint => decode_varint(reader)?,
        CqlType::Decimal => read_decimal(reader, decimal)?,
        // The first byte of each form below only marks the value as empty or present. The forms above have
        // no such byte, or one with more meanings.
        _ if !reader.present()? => Vec::new(),
        CqlType::Int => flip_sign(reader.array::<4>()?).to_vec(),
        CqlType::Bigint | CqlType::Timestamp => flip_sign(reader.array::<8>()?).to_vec(),
        CqlType::Float => from_ascending(reader.array::<4>()?).to_vec(),
        CqlType::Double => from_ascending(reader.array::<8>()?).to_vec(),
        CqlType::Timeuuid => {
            let high = time_last(u64::from_be_bytes(reader.array()?));
            let low = u64::from_be_bytes(reader.array()?) ^ SIGN_OF_EACH_BYTE;
            [high.to_be_bytes(), low.to_be_bytes()].concat()
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            read_parts(reader, &[element], decimal)?
        }
        CqlType::Map { key, value, .. } => read_parts(reader, &[key, value], decimal)?,
        CqlType::Tuple(_) | CqlType::Udt { .. } => read_tuple(ty, reader, decimal)?,
    })
}

fn decode_bytes(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    loop {
        match reader.byte()? {
            0 => match reader.byte()? {
                0 => return Ok(out),
                1 => out.push(0),
                _ => return reader.fail("a zero that is neither escaped nor an end"),
            },
            byte => out.push(byte),
        }
    }
}

fn decode_uuid(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let version = match reader.byte()? {
        EMPTY => return Ok(Vec::new()),
        first => first - 1,
    };
    let mut high = u64::from_be_bytes(reader.array()?);
    if version == 1 {
        high = time_last(high);
    }
    if (high >> 12 & 0xf) as u8 != version {
        return reader.fail("a uuid whose version is not the one before it");
    }
    Ok([high.to_be_bytes(), reader.array::<8>()?].concat())
}

fn decode_varint(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let mask = match reader.byte()? {
        EMPTY => return Ok(Vec::new()),
        NEGATIVE => 0xff,
        ZERO => 0,
        _ => return reader.fail("an unknown sign"),
    };
    let len = match reader.byte()? ^ mask {
        0xff => u32::from_be_bytes(reader.array()?.map(|b| b ^ mask)),
        len => len.into(),
    };
    let value = reader.many(len as usize)?;
    if value.is_empty() || is_negative(&value) != (mask == 0xff) {
        return reader.fail("a number whose sign is not the one before it");
    }
    Ok(value)
}

fn read_decimal<E>(
    reader: &mut Reader<'_>,
    decimal: OfDigits<'_, E>,
) -> Result<Vec<u8>, DecodeError<Malformed, E>> {
    let (sign, mask) = match reader.byte()? {
        EMPTY => return Ok(Vec::new()),
        NEGATIVE => (Sign::Minus, 0xff),
        ZERO => (Sign::NoSign, 0),
        POSITIVE => (Sign::Plus, 0),
        _ => reader.fail("an unknown sign")?,
    };
    let mut value = Digits {
        sign,
        exponent: 0,
        digits: Vec::new(),
    };
    if sign != Sign::NoSign {
        value.exponent = i64::from_be_bytes(flip_sign(reader.array()?.map(|b| b ^ mask)));
        loop {
            match reader.byte()? ^ mask {
                0 => break,
                pair @ 1..=100 => value.digits.extend([(pair - 1) / 10, (pair - 1) % 10]),
                _ => reader.fail("a pair of digits above 99")?,
            }
        }
        while value.digits.last() == Some(&0) {
            value.digits.pop();
        }
        if value.digits.is_empty() {
            reader.fail("a number without digits that is not zero")?
        }
    }
    match decimal(&value) {
        Ok(Some(decimal)) => Ok(decimal),
        Ok(None) => Ok(reader.fail("an exponent beyond that of a decimal")?),
        Err(error) => Err(DecodeError::Charge(error)),
    }
}

fn read_parts<E>(
    reader: &mut Reader<'_>,
    types: &[&CqlType],
    decimal: OfDigits<'_, E>,
) -> Result<Vec<u8>, DecodeError<Malformed, E>> {
    let mut out = vec![0; 4];
    let mut count = 0u32;
    while reader.present()? {
        for (i, ty) in types.iter().enumerate() {
            // The value of a map follows its key.
            if i > 0 && !reader.present()? {
                reader.fail("a key without its value")?
            }
            write_element(Some(&read(ty, reader, decimal)?), &mut out);
        }
        count += 1;
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    Ok(out)
}

fn read_tuple<E>(
    ty: &CqlType,
    reader: &mut Reader<'_>,
    decimal: OfDigits<'_, E>,
) -> Result<Vec<u8>, DecodeError<Malformed, E>> {
    let mut out = Vec::new();
    let mut ended = false;
    for ty in ty.components() {
        let part = match if ended { EMPTY } else { reader.byte()? } {
            EMPTY => {
                ended = true;
                None
            }
            NULL_PART => None,
            PART => Some(read(ty, reader, decimal)?),
            _ => reader.fail("an unknown first byte")?,
        };
        write_element(part.as_deref(), &mut out);
    }
    if !ended && reader.byte()? != EMPTY {
        reader.fail("more parts than the type has")?
    }
    Ok(out)
}
