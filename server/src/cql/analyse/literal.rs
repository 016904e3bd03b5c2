//! Constants of CQL as values: which kind fits which type, and what it is as bytes.
//!
//! The rules and messages are those of Cassandra 4.1 (`Constants.Literal` and the
//! `fromString` of its types).

use std::net::IpAddr;
use std::str::FromStr;

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use ebb_catalog::types::{CqlType, number};
use ebb_cql::syntax::ast::{Constant, ConstantKind};
use uuid::Uuid;

use super::{duration, time};
use crate::cql::error::{Result, invalid};

/// Digits that a decimal or varint may have, its exponent written out: a statement must
/// not make the server expand `1e2000000000`.
const DIGITS_MAX: i64 = 100_000;

/// Whether a constant of this kind may stand where a value of this type is wanted.
pub fn fits(kind: ConstantKind, ty: &CqlType) -> bool {
    use CqlType as T;
    match kind {
        ConstantKind::String => matches!(
            ty,
            T::Ascii | T::Text | T::Inet | T::Date | T::Time | T::Timestamp
        ),
        ConstantKind::Integer => matches!(
            ty,
            T::Bigint
                | T::Counter
                | T::Date
                | T::Decimal
                | T::Double
                | T::Duration
                | T::Float
                | T::Int
                | T::Smallint
                | T::Time
                | T::Timestamp
                | T::Tinyint
                | T::Varint
        ),
        ConstantKind::Float => matches!(ty, T::Decimal | T::Double | T::Float),
        ConstantKind::Boolean => *ty == T::Boolean,
        ConstantKind::Uuid => matches!(ty, T::Uuid | T::Timeuuid),
        ConstantKind::Hex => *ty == T::Blob,
        ConstantKind::Duration => *ty == T::Duration,
    }
}

/// The type that a constant has where nothing says another: of a function's argument, or
/// of a selected constant.
pub fn own_type(kind: ConstantKind, text: &str) -> CqlType {
    match kind {
        ConstantKind::String => CqlType::Text,
        ConstantKind::Integer if text.parse::<i32>().is_ok() => CqlType::Int,
        ConstantKind::Integer if text.parse::<i64>().is_ok() => CqlType::Bigint,
        ConstantKind::Integer => CqlType::Varint,
        ConstantKind::Float => CqlType::Double,
        ConstantKind::Boolean => CqlType::Boolean,
        ConstantKind::Uuid => CqlType::Uuid,
        ConstantKind::Hex => CqlType::Blob,
        ConstantKind::Duration => CqlType::Duration,
    }
}

/// The value of a constant for the column, field or argument `receiver`.
///
/// # Errors
/// In Cassandra's words: the kind does not fit the type, or the text is no such value.
pub fn value(constant: &Constant, ty: &CqlType, receiver: &str) -> Result<Vec<u8>> {
    if !fits(constant.kind, ty) {
        return invalid(format!(
            "Invalid {} constant ({}) for \"{receiver}\" of type {ty}",
            constant.kind.name(),
            constant.text,
        ));
    }
    from_text(ty, &constant.text)
}

/// A native type's value from its text.
///
/// # Errors
/// In Cassandra's words, where the text is no value of the type.
pub fn from_text(ty: &CqlType, text: &str) -> Result<Vec<u8>> {
    let unable = |what: &str| invalid(format!("Unable to make {what} from '{text}'"));
    Ok(match ty {
        CqlType::Text => text.as_bytes().to_vec(),
        CqlType::Ascii => match text.chars().find(|c| !c.is_ascii()) {
            None => text.as_bytes().to_vec(),
            Some(c) => return invalid(format!("Invalid ASCII character in string literal: '{c}'")),
        },
        CqlType::Bigint | CqlType::Counter => match text.parse::<i64>() {
            Ok(number) => number.to_be_bytes().to_vec(),
            Err(_) => return unable("long"),
        },
        CqlType::Int => match text.parse::<i32>() {
            Ok(number) => number.to_be_bytes().to_vec(),
            Err(_) => return unable("int"),
        },
        CqlType::Smallint => match text.parse::<i16>() {
            Ok(number) => number.to_be_bytes().to_vec(),
            Err(_) => return unable("short"),
        },
        CqlType::Tinyint => match text.parse::<i8>() {
            Ok(number) => number.to_be_bytes().to_vec(),
            Err(_) => return unable("byte"),
        },
        CqlType::Float => match f32::from_str(text) {
            Ok(number) => number.to_be_bytes().to_vec(),
            Err(_) => return unable("float"),
        },
        CqlType::Double => match f64::from_str(text) {
            Ok(number) => number.to_be_bytes().to_vec(),
            Err(_) => return unable("double"),
        },
        CqlType::Varint => match big_integer(text) {
            Some(number) => number.to_signed_bytes_be(),
            None => return invalid(format!("unable to make int from '{text}'")),
        },
        CqlType::Decimal => match decimal(text) {
            Some(bytes) => bytes,
            None => return invalid(format!("unable to make BigDecimal from '{text}'")),
        },
        CqlType::Boolean => match text {
            _ if text.eq_ignore_ascii_case("true") => vec![1],
            _ if text.eq_ignore_ascii_case("false") => vec![0],
            _ => return unable("boolean"),
        },
        CqlType::Uuid => match Uuid::parse_str(text) {
            Ok(uuid) => uuid.as_bytes().to_vec(),
            Err(_) => return unable("UUID"),
        },
        CqlType::Timeuuid => match Uuid::parse_str(text) {
            Ok(uuid) if uuid.get_version_num() == 1 => uuid.as_bytes().to_vec(),
            Ok(_) => return invalid("TimeUUID supports only version 1 UUIDs"),
            Err(_) => return invalid(format!("Unknown timeuuid representation: {text}")),
        },
        CqlType::Blob => match hex(text.strip_prefix("0x").or(text.strip_prefix("0X"))) {
            Some(bytes) => bytes,
            None => return invalid(format!("cannot parse '{text}' as hex bytes")),
        },
        CqlType::Inet => match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.octets().to_vec(),
            Ok(IpAddr::V6(address)) => address.octets().to_vec(),
            Err(_) => return invalid(format!("Unable to make inet address from '{text}'")),
        },
        CqlType::Timestamp => match text
            .parse::<i64>()
            .ok()
            .or_else(|| time::timestamp_ms(text))
        {
            Some(ms) => ms.to_be_bytes().to_vec(),
            None => return invalid(format!("Unable to parse a date/time from '{text}'")),
        },
        CqlType::Date => time::date(text)?.to_be_bytes().to_vec(),
        CqlType::Time => match time::time_ns(text) {
            Some(ns) => ns.to_be_bytes().to_vec(),
            None => {
                return invalid(format!(
                    "(TimeType) Unable to coerce '{text}' to a formatted time (long)"
                ));
            }
        },
        CqlType::Duration => match duration::parse(text) {
            Some(bytes) => bytes,
            None => return invalid(format!("Unable to convert '{text}' to a duration")),
        },
        other => return invalid(format!("'{text}' is not a value of type {other}")),
    })
}

/// An integer of so many digits as a statement may ask for.
fn big_integer(text: &str) -> Option<BigInt> {
    let is_short = text.len() as i64 <= DIGITS_MAX;
    is_short.then(|| text.parse().ok()).flatten()
}

/// A `decimal` with the scale that its text says.
fn decimal(text: &str) -> Option<Vec<u8>> {
    if text.len() as i64 > DIGITS_MAX {
        return None;
    }
    let (unscaled, scale) = BigDecimal::from_str(text).ok()?.into_bigint_and_exponent();
    Some(number::decimal(i32::try_from(scale).ok()?, &unscaled))
}

/// Pairs of hexadecimal digits.
fn hex(digits: Option<&str>) -> Option<Vec<u8>> {
    let digits = digits?.as_bytes();
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((nibble(*high)? << 4 | nibble(*low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(kind: ConstantKind, text: &str) -> Constant {
        let text = text.to_owned();
        Constant { kind, text }
    }

    #[test]
    fn a_constant_becomes_the_bytes_of_its_column() {
        let cases: [(ConstantKind, &str, CqlType, &[u8]); 10] = [
            (
                ConstantKind::Integer,
                "-2",
                CqlType::Int,
                &[255, 255, 255, 254],
            ),
            (ConstantKind::Integer, "300", CqlType::Varint, &[1, 44]),
            (
                ConstantKind::Float,
                "1.50",
                CqlType::Decimal,
                &[0, 0, 0, 2, 0, 150],
            ),
            (
                ConstantKind::Integer,
                "7",
                CqlType::Decimal,
                &[0, 0, 0, 0, 7],
            ),
            (ConstantKind::Hex, "0xCAfe", CqlType::Blob, &[0xca, 0xfe]),
            (ConstantKind::Hex, "0x", CqlType::Blob, &[]),
            (
                ConstantKind::String,
                "127.0.0.1",
                CqlType::Inet,
                &[127, 0, 0, 1],
            ),
            (ConstantKind::Boolean, "true", CqlType::Boolean, &[1]),
            (
                ConstantKind::String,
                "1970-01-02",
                CqlType::Date,
                &[128, 0, 0, 1],
            ),
            (
                ConstantKind::String,
                "1970-01-01T00:00:01Z",
                CqlType::Timestamp,
                &[0, 0, 0, 0, 0, 0, 3, 232],
            ),
        ];
        for (kind, text, ty, bytes) in cases {
            assert_eq!(
                value(&constant(kind, text), &ty, "c").unwrap(),
                bytes,
                "{text}"
            );
        }
    }

    #[test]
    fn a_constant_of_another_kind_is_refused_in_cassandras_words() {
        let error = value(&constant(ConstantKind::String, "x"), &CqlType::Int, "c");
        assert_eq!(
            error.unwrap_err().message,
            "Invalid STRING constant (x) for \"c\" of type int"
        );
        let error = value(
            &constant(ConstantKind::Integer, "3000000000"),
            &CqlType::Int,
            "c",
        );
        assert_eq!(
            error.unwrap_err().message,
            "Unable to make int from '3000000000'"
        );
        let error = value(&constant(ConstantKind::Hex, "0xabc"), &CqlType::Blob, "c");
        assert_eq!(
            error.unwrap_err().message,
            "cannot parse '0xabc' as hex bytes"
        );
    }
}
