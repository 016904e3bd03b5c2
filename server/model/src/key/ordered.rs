//! Encoding of one value as bytes that sort in the order of its type.
//!
//! ```text
//! ascii text blob inet     bytes, 00 as 00 01 | 00 00
//! duration                 the same; not in keys, but in elements of sets and keys of maps
//! tinyint smallint         sign flipped
//! date time                unchanged
//! boolean                  00 empty | 01 false | 02 true
//! int bigint timestamp     00 empty | 01, sign flipped
//! float double             00 empty | 01, bits: negative ones inverted, else the sign flipped
//! uuid                     00 empty | 1 + version, high half (v1: time first), low half
//! timeuuid                 00 empty | 01, high half time first, low half with each sign flipped
//! varint                   00 empty | 01 negative or 02, length, two's complement
//! decimal                  00 empty | 01 negative, 02 zero or 03, exponent: 8, digits in pairs
//!                          of 1 + 0..99, 00; negative: all after the first byte inverted
//! list set map             00 empty | 01, for each part 01 and its ordered form, 00
//! tuple udt                00 empty | 01, for each part up to the last that is not null
//!                          01 null | 02 and its ordered form, 00
//! ```
//!
//! A tuple ends after its last part that is not null. Fields that `ALTER TYPE ... ADD` appends are
//! null in older values, so their encoding does not change.
//!
//! A length below 255 is one byte, others are 255 and four bytes; for a negative `varint` it is
//! inverted. Every form marks its own end. In a column that sorts descending, all bytes are inverted.
//!
//! Values that compare as equal have one form, so not every value can be decoded from its form: see
//! [`is_reconstructible`].

use std::convert::Infallible;

use num_bigint::Sign;

use crate::types::compare::{SIGN_OF_EACH_BYTE, halves, time_first, time_last, uuid_order};
use crate::types::elements::{Elements, components, elements, pairs, write_element};
use crate::types::number::{
    DECIMAL_BYTES_MAX, Digits, digits_bytes, has_least_scale, is_negative, minimal,
};
use crate::types::{Charge, CqlType, TypeError};

const EMPTY: u8 = 0;
const PRESENT: u8 = 1;
const NULL_PART: u8 = 1;
const PART: u8 = 2;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;

// Every decimal that fits into a key, in whatever form, is comparable.
const _: () = assert!(DECIMAL_BYTES_MAX == super::KEY_LEN_MAX);

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
        CqlType::Counter => return Err(no_order(ty).into()),
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
            let bits = if value.is_nan() { f32::NAN } else { value }.to_bits();
            let negative = bits >> 31 == 1;
            out.push(PRESENT);
            out.extend(if negative { !bits } else { bits ^ 1 << 31 }.to_be_bytes());
        }
        CqlType::Double => {
            let value = f64::from_be_bytes(fixed(ty, value)?);
            let bits = if value.is_nan() { f64::NAN } else { value }.to_bits();
            let negative = bits >> 63 == 1;
            out.push(PRESENT);
            out.extend(if negative { !bits } else { bits ^ 1 << 63 }.to_be_bytes());
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
        CqlType::Tuple(types) => encode_tuple(value, types.iter(), out, charge)?,
        CqlType::Udt { definition, .. } => {
            let types = definition.fields().iter().map(|(_, t)| t);
            encode_tuple(value, types, out, charge)?;
        }
    }
    Ok(())
}

/// Returns whether [`decode`] restores `value` byte for byte from its ordered form, so that a key
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
        CqlType::Float => fixed(ty, value).is_ok_and(|bytes| {
            !f32::from_be_bytes(bytes).is_nan() || bytes == f32::NAN.to_be_bytes()
        }),
        CqlType::Double => fixed(ty, value).is_ok_and(|bytes| {
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
        CqlType::Tuple(types) => is_reconstructible_tuple(value, types.iter(), charge)?,
        CqlType::Udt { definition, .. } => {
            let types = definition.fields().iter().map(|(_, t)| t);
            is_reconstructible_tuple(value, types, charge)?
        }
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

/// Returns whether [`decode`] restores a tuple byte for byte from its ordered form, so that the
/// original need not be stored beside the form. This is so if each component can be restored, if no
/// component is missing, and if each null has the length -1.
fn is_reconstructible_tuple<'t, E>(
    value: &[u8],
    types: impl Iterator<Item = &'t CqlType>,
    charge: Charge<'_, E>,
) -> Result<bool, E> {
    let mut parts = components(value);
    for ty in types {
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

fn invalid(ty: &CqlType, value: &[u8]) -> TypeError {
    match ty.validate(value) {
        Err(e) => e,
        Ok(()) => TypeError::new(format!("{} bytes are no {ty}", value.len())),
    }
}

fn no_order(ty: &CqlType) -> TypeError {
    TypeError::new(format!("Values of type {ty} have no order"))
}

fn fixed<const N: usize>(ty: &CqlType, value: &[u8]) -> Result<[u8; N], TypeError> {
    value.try_into().map_err(|_| invalid(ty, value))
}

fn flip_sign<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes[0] ^= 0x80;
    bytes
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

fn encode_tuple<'a, E>(
    value: &[u8],
    types: impl Iterator<Item = &'a CqlType>,
    out: &mut Vec<u8>,
    charge: Charge<'_, E>,
) -> Result<(), EncodeError<E>> {
    out.push(PRESENT);
    let mut nulls = 0;
    for (part, ty) in components(value).zip(types) {
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

/// Decodes ordered forms from the front of a key. The bytes of a descending column are inverted.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    mask: u8,
}

/// An invalid ordered form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The kind of damage.
    pub what: &'static str,
    /// The offset of the damage in the reader's input.
    pub at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of ordered forms, one after the other in `bytes`. `inverted` is true if the
    /// first one is of a descending column, whose bytes are complemented.
    pub fn new(bytes: &'a [u8], inverted: bool) -> Self {
        Self {
            bytes,
            at: 0,
            mask: if inverted { 0xff } else { 0 },
        }
    }

    /// Sets whether the following bytes are complemented, as those of a descending column are.
    pub fn set_inverted(&mut self, inverted: bool) {
        self.mask = if inverted { 0xff } else { 0 };
    }

    /// Returns the number of bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { what, at: self.at })
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[b]| b)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(bytes.map(|b| b ^ self.mask))
            }
            None => self.fail("a value is cut off"),
        }
    }

    fn many(&mut self, len: usize) -> Result<Vec<u8>, Malformed> {
        match self.bytes[self.at..].get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes.iter().map(|b| b ^ self.mask).collect())
            }
            None => self.fail("a value is cut off"),
        }
    }

    /// Reads a byte that is 1 before a value or a part of a collection, and 0 for an empty value or
    /// the end of a collection. Returns true for 1.
    fn present(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            EMPTY => Ok(false),
            PRESENT => Ok(true),
            _ => self.fail("an unknown first byte"),
        }
    }
}

/// Decodes one value off the front: the encoded value itself if it is
/// [reconstructible](is_reconstructible), otherwise another value that compares as equal.
///
/// Reports the work to the callback `charge` before it computes a decimal from its digits, as
/// [`try_encode`] does.
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
        CqlType::Float => {
            let bits = u32::from_be_bytes(reader.array()?);
            let positive = bits >> 31 == 1;
            if positive { bits ^ 1 << 31 } else { !bits }
                .to_be_bytes()
                .to_vec()
        }
        CqlType::Double => {
            let bits = u64::from_be_bytes(reader.array()?);
            let positive = bits >> 63 == 1;
            if positive { bits ^ 1 << 63 } else { !bits }
                .to_be_bytes()
                .to_vec()
        }
        CqlType::Timeuuid => {
            let high = time_last(u64::from_be_bytes(reader.array()?));
            let low = u64::from_be_bytes(reader.array()?) ^ SIGN_OF_EACH_BYTE;
            [high.to_be_bytes(), low.to_be_bytes()].concat()
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            read_parts(reader, &[element], decimal)?
        }
        CqlType::Map { key, value, .. } => read_parts(reader, &[key, value], decimal)?,
        CqlType::Tuple(types) => read_tuple(reader, types.iter(), decimal)?,
        CqlType::Udt { definition, .. } => {
            let types = definition.fields().iter().map(|(_, t)| t);
            read_tuple(reader, types, decimal)?
        }
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

fn read_tuple<'a, E>(
    reader: &mut Reader<'_>,
    types: impl Iterator<Item = &'a CqlType>,
    decimal: OfDigits<'_, E>,
) -> Result<Vec<u8>, DecodeError<Malformed, E>> {
    let mut out = Vec::new();
    let mut ended = false;
    for ty in types {
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
