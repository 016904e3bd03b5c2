//! Prints any value as a CQL literal.

use std::net::{Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;
use uuid::Uuid;

use super::{Duration, calendar};
use crate::types::CqlType;
use crate::types::elements::{Components, components, elements, pairs};
use crate::types::identifier::Quoted;
use crate::types::number::{DIGITS_BYTES_MAX, minimal, split_decimal};

impl CqlType {
    /// Returns the value as a CQL literal: `'it''s'`, `12`, `{'a': [1, 2]}`. An empty value of a type
    /// without a literal for it is `blobasint(0x)`; invalid bytes, and numbers of more than 100,000 digits,
    /// are hex digits. For people, as in error messages.
    pub fn literal(&self, value: &[u8]) -> String {
        if self.validate(value).is_err() {
            return hex(value);
        }
        if value.is_empty() && self.is_native() {
            return match self {
                Self::Text | Self::Ascii => "''".to_owned(),
                Self::Blob => "0x".to_owned(),
                _ => format!("blobas{self}(0x)"),
            };
        }
        self.print(value).unwrap_or_else(|| hex(value))
    }

    /// Appends the value as [`literal`](Self::literal) prints it, but without the quotes around texts,
    /// dates, times and addresses; for an empty value it appends nothing.
    /// [`parse_value`](Self::parse_value) reads the texts of native types back; for a blob, pass it
    /// the text after the leading `0x`.
    pub fn write_text(&self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            _ if value.is_empty() && self.is_native() => {}
            Self::Text | Self::Ascii => out.extend_from_slice(value),
            Self::Inet | Self::Date | Self::Time | Self::Timestamp => {
                let literal = self.literal(value);
                out.extend_from_slice(literal.trim_matches('\'').as_bytes());
            }
            _ => out.extend_from_slice(self.literal(value).as_bytes()),
        }
    }

    /// Prints a valid value, which is not empty if its type is native. `None` if it is a number of too many
    /// digits.
    fn print(&self, value: &[u8]) -> Option<String> {
        Some(match self {
            Self::Ascii | Self::Text => {
                format!("'{}'", std::str::from_utf8(value).ok()?.replace('\'', "''"))
            }
            Self::Blob => hex(value),
            // Every byte but 0 is true.
            Self::Boolean => (value != [0]).to_string(),
            Self::Tinyint => i8::from_be_bytes(value.try_into().ok()?).to_string(),
            Self::Smallint => i16::from_be_bytes(value.try_into().ok()?).to_string(),
            Self::Int => i32::from_be_bytes(value.try_into().ok()?).to_string(),
            Self::Bigint | Self::Counter => i64::from_be_bytes(value.try_into().ok()?).to_string(),
            // `Debug` prints 1.0 where `Display` prints 1, which is the literal of an integer.
            Self::Float => {
                let value = f32::from_be_bytes(value.try_into().ok()?);
                special(value.into()).unwrap_or_else(|| format!("{value:?}"))
            }
            Self::Double => {
                let value = f64::from_be_bytes(value.try_into().ok()?);
                special(value).unwrap_or_else(|| format!("{value:?}"))
            }
            Self::Varint => print_integer(value)?,
            Self::Decimal => print_decimal(value)?,
            Self::Uuid | Self::Timeuuid => Uuid::from_slice(value).ok()?.to_string(),
            Self::Inet => match <[u8; 4]>::try_from(value) {
                Ok(v4) => format!("'{}'", Ipv4Addr::from(v4)),
                Err(_) => format!("'{}'", Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?)),
            },
            // `calendar` adds the quotes: a value that has no form as a text is printed as a number.
            Self::Date => calendar::print_date(u32::from_be_bytes(value.try_into().ok()?)),
            Self::Time => calendar::print_time(i64::from_be_bytes(value.try_into().ok()?)),
            Self::Timestamp => {
                calendar::print_timestamp(i64::from_be_bytes(value.try_into().ok()?))
            }
            Self::Duration => Duration::from_bytes(value)?.to_string(),
            Self::List { element, .. } => {
                let parts = elements(value).ok()?;
                format!("[{}]", join(parts.map(|p| print_part(element, p.ok()?))))
            }
            Self::Set { element, .. } => {
                let parts = elements(value).ok()?;
                format!("{{{}}}", join(parts.map(|p| print_part(element, p.ok()?))))
            }
            Self::Map { key, value: of, .. } => {
                let mut parts = pairs(value).ok()?;
                let entries = std::iter::from_fn(|| {
                    let entry = (parts.next()?.ok()?, parts.next()?.ok()?);
                    Some((print_part(key, entry.0)?, print_part(of, entry.1)?))
                });
                format!(
                    "{{{}}}",
                    join(entries.map(|(k, v)| Some(format!("{k}: {v}"))))
                )
            }
            Self::Tuple(types) => {
                let mut parts = components(value);
                format!(
                    "({})",
                    join(types.iter().map(|t| print_next(t, &mut parts)))
                )
            }
            Self::Udt { definition, .. } => {
                let mut parts = components(value);
                let fields = definition.fields().iter();
                let fields = fields.map(|(name, ty)| {
                    Some(format!("{}: {}", Quoted(name), print_next(ty, &mut parts)?))
                });
                format!("{{{}}}", join(fields))
            }
        })
    }
}

/// Returns bytes as the literal of a blob: `0x`, then two digits for each byte.
pub fn hex(value: &[u8]) -> String {
    let digits = value.iter().flat_map(|b| [b >> 4, b & 0xf]);
    let digits = digits.filter_map(|d| char::from_digit(d.into(), 16));
    "0x".chars().chain(digits).collect()
}

/// Returns the literal of a float that is not finite; `None` for finite ones.
fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| {
        if value > 0.0 {
            "Infinity".to_owned()
        } else {
            "-Infinity".to_owned()
        }
    })
}

/// Prints a `varint`; `None` if it has too many digits to be printed in bounded time.
fn print_integer(value: &[u8]) -> Option<String> {
    let value = minimal(value);
    if let Some(start) = 8_usize.checked_sub(value.len()) {
        // Nearly all numbers have at most 64 bits, and are printed several times as fast.
        let sign = value.first().map_or(0, |byte| byte.cast_signed() >> 7);
        let mut bytes = [sign.cast_unsigned(); 8];
        bytes[start..].copy_from_slice(value);
        return Some(i64::from_be_bytes(bytes).to_string());
    }
    (value.len() <= DIGITS_BYTES_MAX).then(|| BigInt::from_signed_bytes_be(value).to_string())
}

/// Prints a `decimal` with a point if it then needs at most 30 zeros, otherwise with an exponent.
fn print_decimal(value: &[u8]) -> Option<String> {
    const ZEROS_MAX: usize = 30;
    let (scale, unscaled) = split_decimal(value)?;
    let mut number = print_integer(unscaled)?;
    let sign_len = usize::from(number.starts_with('-'));
    let digits = number.len() - sign_len;
    let places = usize::try_from(scale).ok();
    match places.filter(|&p| p <= digits + ZEROS_MAX) {
        Some(0) => {}
        Some(places) => {
            if let Some(zeros @ 1..) = (places + 1).checked_sub(digits) {
                number.insert_str(sign_len, &"0".repeat(zeros));
            }
            number.insert(number.len() - places, '.');
        }
        // In 64 bits, because the negative of the least scale has no form in 32.
        None => number.push_str(&format!("E{}", -i64::from(scale))),
    }
    Some(number)
}

fn print_part(ty: &CqlType, part: Option<&[u8]>) -> Option<String> {
    Some(part.map_or_else(|| "null".to_owned(), |p| ty.literal(p)))
}

/// Prints the next component of a tuple or user-defined type, and `null` for one that is null or missing.
/// The result, for [`join`], is never `None`.
fn print_next(ty: &CqlType, parts: &mut Components<'_>) -> Option<String> {
    print_part(ty, parts.next().and_then(Result::ok).flatten())
}

/// Joins printed parts. A part that cannot be read is left out, which does not occur: `literal` validates
/// the value first.
fn join(parts: impl Iterator<Item = Option<String>>) -> String {
    parts.flatten().collect::<Vec<_>>().join(", ")
}
