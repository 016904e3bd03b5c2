//! Parses text into the bytes of a native type or tuple, as Cassandra's `fromString` does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use num_bigint::BigInt;
use uuid::Uuid;

use super::{Duration, calendar};
use crate::types::elements::build_tuple;
use crate::types::number::decimal;
use crate::types::{CqlType, TypeError};

/// The maximal number of digits in a `varint` or `decimal`: the time to parse them grows with the
/// square of their number. Numbers up to about this length are also printed in decimal: see
/// `DIGITS_BYTES_MAX`.
const DIGITS_MAX: usize = 100_000;

impl CqlType {
    /// Parses the text of a value: `12`, `2024-02-29`, `1h30m`; the hex digits of a blob; the parts
    /// of a tuple, separated by `:`, where `@` is null and a backslash escapes a `:` or an `@`. An
    /// empty text is the empty value if the type has one, as [`write_text`](Self::write_text)
    /// prints it. (Cassandra reads an empty text as false for a boolean.)
    ///
    /// # Errors
    /// Cassandra's messages, if the text is no value of the type. A collection or user-defined type
    /// always returns an error.
    pub fn parse_value(&self, text: &str) -> Result<Vec<u8>, TypeError> {
        // Not for tuples: their empty text is that of the first component.
        if text.is_empty() && self.is_native() && self.validate(&[]).is_ok() {
            return Ok(Vec::new());
        }
        let unable = |what: &str| TypeError::new(format!("Unable to make {what} from '{text}'"));
        Ok(match self {
            Self::Ascii if !text.is_ascii() => {
                return Err(TypeError::new("Invalid ASCII character in string literal"));
            }
            Self::Ascii | Self::Text => text.as_bytes().to_vec(),
            Self::Bigint | Self::Counter => number::<i64>(text, "long")?.to_be_bytes().to_vec(),
            Self::Int => number::<i32>(text, "int")?.to_be_bytes().to_vec(),
            Self::Smallint => number::<i16>(text, "short")?.to_be_bytes().to_vec(),
            Self::Tinyint => number::<i8>(text, "byte")?.to_be_bytes().to_vec(),
            Self::Float => float::<f32>(text, "float")?.to_be_bytes().to_vec(),
            Self::Double => float::<f64>(text, "double")?.to_be_bytes().to_vec(),
            Self::Boolean if text.eq_ignore_ascii_case("true") => vec![1],
            Self::Boolean if text.eq_ignore_ascii_case("false") => vec![0],
            Self::Boolean => return Err(unable("boolean")),
            // Cassandra's messages about `varint` and `decimal` begin in lower case.
            Self::Varint => match integer(text) {
                Some(value) => value.to_signed_bytes_be(),
                None => return Err(TypeError::new(format!("unable to make int from '{text}'"))),
            },
            Self::Decimal => parse_decimal(text).ok_or_else(|| {
                TypeError::new(format!("unable to make BigDecimal from '{text}'"))
            })?,
            Self::Blob => hex(text)
                .ok_or_else(|| TypeError::new(format!("cannot parse '{text}' as hex bytes")))?,
            Self::Uuid => match uuid(text) {
                Some(uuid) => uuid.into_bytes().to_vec(),
                None => return Err(unable("UUID")),
            },
            Self::Timeuuid => match uuid(text) {
                Some(uuid) if uuid.get_version_num() == 1 => uuid.into_bytes().to_vec(),
                Some(_) => return Err(TypeError::new("TimeUUID supports only version 1 UUIDs")),
                None => {
                    let message = format!("Unknown timeuuid representation: {text}");
                    return Err(TypeError::new(message));
                }
            },
            Self::Inet => match inet(text) {
                Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
                Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
                None => return Err(unable("inet address")),
            },
            Self::Date => calendar::parse_date(text)?.to_be_bytes().to_vec(),
            Self::Time => calendar::parse_time(text)?.to_be_bytes().to_vec(),
            Self::Timestamp => calendar::parse_timestamp(text)?.to_be_bytes().to_vec(),
            Self::Duration => Duration::parse(text)?.to_bytes(),
            Self::Tuple(types) => parse_tuple(self, types, text)?,
            Self::List { .. } | Self::Set { .. } | Self::Map { .. } | Self::Udt { .. } => {
                return Err(unable(&self.to_string()));
            }
        })
    }
}

fn parse_tuple(ty: &CqlType, types: &[CqlType], text: &str) -> Result<Vec<u8>, TypeError> {
    let mut parts = vec![""];
    let mut from = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            *parts.last_mut().expect("one at least") = &text[from..at];
            from = at + 1;
            parts.push("");
        }
    }
    *parts.last_mut().expect("one at least") = &text[from..];
    if parts.len() > types.len() {
        return Err(TypeError::new(format!(
            "Invalid tuple literal: too many elements. Type {ty} expects {} but got {}",
            types.len(),
            parts.len()
        )));
    }
    let part = |(part, ty): (&&str, &CqlType)| match *part {
        "@" => Ok(None),
        part => {
            let part = part.replace("\\:", ":").replace("\\@", "@");
            ty.parse_value(&part).map(Some)
        }
    };
    let values: Vec<Option<Vec<u8>>> = parts
        .iter()
        .zip(types)
        .map(part)
        .collect::<Result<_, _>>()?;
    Ok(build_tuple(values.iter().map(Option::as_deref)))
}

fn number<T: FromStr>(text: &str, name: &str) -> Result<T, TypeError> {
    text.parse()
        .map_err(|_| TypeError::new(format!("Unable to make {name} from '{text}'")))
}

/// Parses a float as Java's `parseDouble` does, except for the hexadecimal form.
fn float<T: FromStr>(text: &str, name: &str) -> Result<T, TypeError> {
    let refuse = || TypeError::new(format!("Unable to make {name} from '{text}'"));
    let trimmed = text.trim_matches(|c: char| c <= ' ');
    let (sign, unsigned) = match trimmed.strip_prefix(['+', '-']) {
        Some(unsigned) => (&trimmed[..1], unsigned),
        None => ("", trimmed),
    };
    let digits = match unsigned {
        // Java ignores the sign of NaN.
        "NaN" => return "NaN".parse().map_err(|_| refuse()),
        "Infinity" => unsigned,
        _ => {
            let digits = unsigned
                .strip_suffix(['f', 'F', 'd', 'D'])
                .unwrap_or(unsigned);
            // Rust's `parse` accepts words like `inf` in any case.
            if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return Err(refuse());
            }
            digits
        }
    };
    format!("{sign}{digits}").parse().map_err(|_| refuse())
}

/// Parses an address as Java's `InetAddress` does, except for host names. IPv4 has one to four
/// decimal numbers, and the last number fills the rest of the address. IPv6 may stand in brackets;
/// an IPv4-mapped address becomes IPv4.
fn inet(text: &str) -> Option<IpAddr> {
    let bracketed = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if bracketed.unwrap_or(text).contains(':') {
        let address = Ipv6Addr::from_str(bracketed.unwrap_or(text)).ok()?;
        return Some(address.to_canonical());
    }
    // Java rejects longer texts.
    if text.len() > 15 {
        return None;
    }
    let mut parts: Vec<&str> = text.split('.').collect();
    let last = parts.pop().filter(|_| parts.len() < 4)?;
    let number = |part: &str, most: u64| {
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let number = part.parse::<u64>().ok().filter(|_| is_number);
        number.filter(|number| *number <= most)
    };
    let mut address = 0;
    for (at, part) in parts.iter().enumerate() {
        address |= number(part, 0xff)? << (24 - 8 * at);
    }
    address |= number(last, 0xffff_ffff >> (8 * parts.len()))?;
    Some(Ipv4Addr::from(address as u32).into())
}

fn integer(text: &str) -> Option<BigInt> {
    // `BigInt` would accept underscores.
    let digits = text.trim_start_matches(['-', '+']);
    if digits.len() > DIGITS_MAX || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Parses the literal of a `decimal` (a sign, digits with a point at any place, and an exponent)
/// into its native serialization; `None` if the literal is invalid, or has too many digits or too
/// large a scale.
fn parse_decimal(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let unscaled = integer(&format!("{whole}{fraction}"))?;
    let scale = (fraction.len() as i64).checked_sub(exponent)?;
    Some(decimal(i32::try_from(scale).ok()?, &unscaled))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|p| p[0] << 4 | p[1]).collect())
}

/// Parses a uuid in the form with hyphens only: the other forms that `Uuid` parses are invalid in
/// CQL.
fn uuid(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::parse_str(text).ok())?
}
