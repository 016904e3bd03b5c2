//! Prints any value as a CQL literal.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;
use uuid::Uuid;

use super::{Duration, calendar};
use crate::types::elements::{Components, components, elements, pairs};
use crate::types::identifier::Quoted;
use crate::types::number::{DIGITS_BYTES_MAX, digits_bytes, minimal, split_decimal};
use crate::types::{Charge, CqlType};

impl CqlType {
    /// Returns the value as a CQL literal: `'it''s'`, `12`, `{'a': [1, 2]}`. An empty value of a
    /// native type without an empty literal is printed as `blobasint(0x)`, with the name of its
    /// type. Invalid bytes, and numbers of more than 100,000 digits, are printed as hex digits. The
    /// result is for people, as in error messages.
    pub fn literal(&self, value: &[u8]) -> String {
        let Ok(literal) = self.try_literal(value, &mut |_| Ok::<_, Infallible>(()));
        literal
    }

    /// Returns the value as [`literal`](Self::literal) does. Reports the work to `charge` before it prints a
    /// number, and ends with the first error that `charge` returns.
    fn try_literal<E>(&self, value: &[u8], charge: Charge<'_, E>) -> Result<String, E> {
        if self.validate(value).is_err() {
            return Ok(hex(value));
        }
        if value.is_empty() && self.is_native() {
            return Ok(match self {
                Self::Text | Self::Ascii => "''".to_owned(),
                Self::Blob => "0x".to_owned(),
                _ => format!("blobas{self}(0x)"),
            });
        }
        if matches!(self, Self::Varint | Self::Decimal) {
            charge(digits_bytes(value.len()))?;
        }
        let printed = if self.is_native() {
            self.print_native(value)
        } else {
            self.print_parts(value, charge)?
        };
        Ok(printed.unwrap_or_else(|| hex(value)))
    }

    /// Appends the value as [`literal`](Self::literal) prints it, but without the quotes around texts,
    /// dates, times and addresses; for an empty value it appends nothing.
    /// [`parse_value`](Self::parse_value) reads the texts of native types back; for a blob, pass it
    /// the text after the leading `0x`.
    pub fn write_text(&self, value: &[u8], out: &mut Vec<u8>) {
        let Ok(()) = self.try_write_text(value, out, &mut |_| Ok::<_, Infallible>(()));
    }

    /// Appends the value as [`write_text`](Self::write_text) does. Reports the work to `charge` before it
    /// prints a number, because a collection may have thousands of long ones.
    ///
    /// # Errors
    /// The error of `charge`. Then nothing is appended.
    pub fn try_write_text<E>(
        &self,
        value: &[u8],
        out: &mut Vec<u8>,
        charge: Charge<'_, E>,
    ) -> Result<(), E> {
        match self {
            _ if value.is_empty() && self.is_native() => {}
            Self::Text | Self::Ascii => out.extend_from_slice(value),
            Self::Inet | Self::Date | Self::Time | Self::Timestamp => {
                let literal = self.literal(value);
                out.extend_from_slice(literal.trim_matches('\'').as_bytes());
            }
            _ => out.extend_from_slice(self.try_literal(value, charge)?.as_bytes()),
        }
        Ok(())
    }

    /// Prints a valid value of a native type, which is not empty. `None` if it is a number of too many
    /// digits, or if its type is not native.
    fn print_native(&self, value: &[u8]) -> Option<String> {
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
            Self::List { .. }
            | Self::Set { .. }
            | Self::Map { .. }
            | Self::Tuple(_)
            | Self::Udt { .. } => return None,
        })
    }

    /// Prints a valid value of a type that is not native. `None` if the value cannot be read, which does not
    /// occur: `try_literal` validates it first.
    fn print_parts<E>(&self, value: &[u8], charge: Charge<'_, E>) -> Result<Option<String>, E> {
        let mut printed = Vec::new();
        let (open, close) = match self {
            Self::List { element, .. } | Self::Set { element, .. } => {
                let Ok(parts) = elements(value) else {
                    return Ok(None);
                };
                for part in parts.flatten() {
                    printed.push(print_part(element, part, charge)?);
                }
                if matches!(self, Self::List { .. }) {
                    ('[', ']')
                } else {
                    ('{', '}')
                }
            }
            Self::Map { key, value: of, .. } => {
                let Ok(mut parts) = pairs(value) else {
                    return Ok(None);
                };
                while let (Some(Ok(k)), Some(Ok(v))) = (parts.next(), parts.next()) {
                    let k = print_part(key, k, charge)?;
                    printed.push(format!("{k}: {}", print_part(of, v, charge)?));
                }
                ('{', '}')
            }
            Self::Tuple(types) => {
                let mut parts = components(value);
                for ty in types.iter() {
                    printed.push(print_next(ty, &mut parts, charge)?);
                }
                ('(', ')')
            }
            Self::Udt { definition, .. } => {
                let mut parts = components(value);
                for (name, ty) in definition.fields() {
                    let field = print_next(ty, &mut parts, charge)?;
                    printed.push(format!("{}: {field}", Quoted(name)));
                }
                ('{', '}')
            }
            _ => return Ok(None),
        };
        Ok(Some(format!("{open}{}{close}", printed.join(", "))))
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

/// Prints a `decimal`: without an exponent if its scale is not negative and at most 30 zeros stand
/// between the point and the digits, otherwise with an exponent. `None` if it has too many digits
/// to be printed in bounded time.
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

fn print_part<E>(ty: &CqlType, part: Option<&[u8]>, charge: Charge<'_, E>) -> Result<String, E> {
    match part {
        None => Ok("null".to_owned()),
        Some(part) => ty.try_literal(part, charge),
    }
}

/// Prints the next component of a tuple or user-defined type, and `null` for one that is null or missing.
fn print_next<E>(
    ty: &CqlType,
    parts: &mut Components<'_>,
    charge: Charge<'_, E>,
) -> Result<String, E> {
    print_part(ty, parts.next().and_then(Result::ok).flatten(), charge)
}
