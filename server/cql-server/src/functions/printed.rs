//! Native values as text, as Java prints them: in casts as by `toCQLLiteral` of Cassandra's
//! serializers, in JSON as by `toJSONString` of its types.

use std::fmt::LowerExp;
use std::net::IpAddr;

use bigdecimal::num_bigint::{BigInt, Sign};
use ebb_model::types::literal::{date_of, hex};
use ebb_model::types::{CqlType, number, vint};
use uuid::Uuid;

/// The number that a `date` of 1970-01-01 is stored as.
pub const DATE_EPOCH: i64 = 1 << 31;
pub const MS_PER_DAY: i64 = 86_400_000;
/// 1582-10-15 in days since 1970. `SimpleDateFormat` uses the Julian calendar before that day.
const GREGORIAN_FROM: i64 = -141_427;

/// Prints a value as text. An empty value prints as `null`, except for text and blobs. `None` for
/// damaged bytes and for collections, tuples and user-defined types. The time is quadratic in the
/// number of digits of a number, which the caller limits.
pub fn text(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::Text | CqlType::Ascii => String::from_utf8_lossy(bytes).into_owned(),
        CqlType::Blob => hex(bytes),
        _ if bytes.is_empty() => "null".to_owned(),
        CqlType::Boolean => (bytes[0] != 0).to_string(),
        CqlType::Tinyint => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::Smallint => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::Int => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::Bigint | CqlType::Counter => {
            i64::from_be_bytes(bytes.try_into().ok()?).to_string()
        }
        CqlType::Float => float(f32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Double => double(f64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Varint => BigInt::from_signed_bytes_be(bytes).to_string(),
        CqlType::Decimal => {
            let (scale, unscaled) = number::split_decimal(bytes)?;
            decimal(&BigInt::from_signed_bytes_be(unscaled), scale)
        }
        CqlType::Uuid | CqlType::Timeuuid => Uuid::from_slice(bytes).ok()?.to_string(),
        CqlType::Inet => inet(bytes)?,
        CqlType::Date => {
            let days = u32::from_be_bytes(bytes.try_into().ok()?);
            date(i64::from(days) - DATE_EPOCH)
        }
        CqlType::Time => time(i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Timestamp => timestamp(i64::from_be_bytes(bytes.try_into().ok()?), 'T'),
        CqlType::Duration => duration(bytes)?,
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. } => return None,
    })
}

/// Prints as `Float.toString` does.
pub fn float(number: f32) -> String {
    floating(number)
}

/// Prints as `Double.toString` does: with a point from a thousandth to less than ten million,
/// otherwise with an exponent, and with at least one digit after the point.
pub fn double(number: f64) -> String {
    floating(number)
}

/// Converts a number to Java's form, from the form in which Rust prints its shortest digits:
/// `-1.25e-7`, `0e0`, `inf`, `NaN`.
fn floating(number: impl LowerExp + Copy) -> String {
    let mut shortest = format!("{number:e}");
    if !shortest.contains('.') {
        // Where one digit would do, Java takes the nearest number of two digits. It differs only for
        // the smallest numbers: 4.9E-324.
        shortest = format!("{number:.1e}").replace(".0e", "e");
    }
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        return shortest.replace("inf", "Infinity");
    };
    let exponent: i32 = exponent.parse().expect("the exponent of a float");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    match exponent {
        -3..0 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            format!("{sign}0.{zeros}{digits}")
        }
        0..7 => {
            let whole = exponent as usize + 1;
            let digits = format!("{digits:0<width$}", width = whole + 1);
            let (whole, fraction) = digits.split_at(whole);
            format!("{sign}{whole}.{fraction}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let rest = if rest.is_empty() { "0" } else { rest };
            format!("{sign}{first}.{rest}E{exponent}")
        }
    }
}

/// Prints as `BigDecimal.toString` does: with an exponent if the scale is negative, or if more than five zeros
/// would follow the point.
pub fn decimal(unscaled: &BigInt, scale: i32) -> String {
    let digits = unscaled.magnitude().to_string();
    let sign = match unscaled.sign() {
        Sign::Minus => "-",
        Sign::NoSign | Sign::Plus => "",
    };
    let exponent = digits.len() as i64 - 1 - i64::from(scale);
    match usize::try_from(scale) {
        Ok(0) => format!("{sign}{digits}"),
        Ok(places) if exponent >= -6 => {
            // The width of `format!` would not do: it is at most 65,535.
            let digits = "0".repeat((places + 1).saturating_sub(digits.len())) + &digits;
            let (whole, fraction) = digits.split_at(digits.len() - places);
            format!("{sign}{whole}.{fraction}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let exponent = match exponent {
                0 => String::new(),
                _ => format!("E{exponent:+}"),
            };
            format!("{sign}{first}{point}{rest}{exponent}")
        }
    }
}

/// Prints as `InetAddress.getHostAddress` does: without `::`.
fn inet(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        // Java turns an IPv6 address that wraps an IPv4 address into the latter.
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
    };
    Some(match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let parts = address.segments().map(|part| format!("{part:x}"));
            parts.join(":")
        }
    })
}

/// Prints as `DateTimeFormatter.ISO_LOCAL_DATE` does: years of more than four digits have a sign.
fn date(days: i64) -> String {
    let (year, month, day) = date_of(days);
    let year = match year {
        ..0 => format!("-{:04}", -year),
        0..10_000 => format!("{year:04}"),
        _ => format!("+{year}"),
    };
    format!("{year}-{month:02}-{day:02}")
}

/// Prints as `TimeSerializer.toString` does.
fn time(ns: i64) -> String {
    let seconds = ns / 1_000_000_000;
    format!("{}.{:09}", clock(seconds), ns % 1_000_000_000)
}

fn clock(seconds: i64) -> String {
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Prints as `SimpleDateFormat` does with `yyyy-MM-dd'T'HH:mm:ss.SSSX` in UTC, with `separator` for
/// the `T`. The years before 1 count backwards from 1, without a sign.
pub fn timestamp(ms: i64, separator: char) -> String {
    let (days, of_day) = (ms.div_euclid(MS_PER_DAY), ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = match days {
        ..GREGORIAN_FROM => julian_date_of(days),
        _ => date_of(days),
    };
    let year = if year > 0 { year } else { 1 - year };
    format!(
        "{year:04}-{month:02}-{day:02}{separator}{}.{:03}Z",
        clock(of_day / 1000),
        of_day % 1000
    )
}

/// Prints as `Duration.toString` does: a duration of zero prints as an empty text.
fn duration(mut bytes: &[u8]) -> Option<String> {
    let months = vint::read_signed(&mut bytes)?;
    let days = vint::read_signed(&mut bytes)?;
    let nanos = vint::read_signed(&mut bytes)?;
    let mut out = String::new();
    if months < 0 || days < 0 || nanos < 0 {
        out.push('-');
    }
    let mut part = |mut left: u64, units: &[(u64, &str)]| {
        for (size, unit) in units {
            let count = left / size;
            left %= size;
            if count > 0 {
                out.push_str(&format!("{count}{unit}"));
            }
        }
    };
    part(months.unsigned_abs(), &[(12, "y"), (1, "mo")]);
    part(days.unsigned_abs(), &[(1, "d")]);
    let units = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1000, "us"),
        (1, "ns"),
    ];
    part(nanos.unsigned_abs(), &units);
    Some(out)
}

/// Converts days since 1970 to year, month and day of the Julian calendar, by 4-year cycles that
/// begin in March.
fn julian_date_of(days: i64) -> (i64, i64, i64) {
    // Days since March 1st of the Julian year -4800.
    let days = days + 2_440_588 + 32_082;
    let year = (4 * days + 3).div_euclid(1461);
    let day_of_year = days - (1461 * year).div_euclid(4);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next_year = i64::from(month >= 10);
    (
        year - 4800 + is_next_year,
        month + 3 - 12 * is_next_year,
        day,
    )
}
