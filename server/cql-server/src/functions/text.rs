//! Native values as text: for casts and JSON.

use std::net::IpAddr;

use ebb_catalog::types::{CqlType, vint};
use uuid::Uuid;

use super::cast::Number;

const DATE_EPOCH: i64 = 1 << 31;
const MS_PER_DAY: i64 = 86_400_000;

/// A native value as text; none for empty or damaged ones.
pub fn of(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::Text | CqlType::Ascii => String::from_utf8_lossy(bytes).into_owned(),
        CqlType::Boolean => match bytes.first()? {
            0 => "false".to_owned(),
            _ => "true".to_owned(),
        },
        CqlType::Uuid | CqlType::Timeuuid => Uuid::from_slice(bytes).ok()?.to_string(),
        CqlType::Inet => match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
        },
        CqlType::Date => {
            let days = u32::from_be_bytes(bytes.try_into().ok()?);
            day(i64::from(days) - DATE_EPOCH)
        }
        CqlType::Time => {
            let ns = i64::from_be_bytes(bytes.try_into().ok()?);
            format!("{}.{:09}", clock(ns / 1_000_000_000), ns % 1_000_000_000)
        }
        CqlType::Timestamp => {
            let ms = i64::from_be_bytes(bytes.try_into().ok()?);
            let of_day = ms.rem_euclid(MS_PER_DAY);
            let (day, clock) = (day(ms.div_euclid(MS_PER_DAY)), clock(of_day / 1000));
            format!("{day} {clock}.{:03}Z", of_day % 1000)
        }
        CqlType::Duration => duration(bytes)?,
        number => match Number::read(number, bytes)? {
            Number::Integer(n) => n.to_string(),
            Number::Big(n) => n.to_string(),
            Number::Float(_) if *number == CqlType::Float => float(
                f64::from(f32::from_be_bytes(bytes.try_into().ok()?)),
                f32::from_be_bytes(bytes.try_into().ok()?).to_string(),
            ),
            Number::Float(n) => float(n, n.to_string()),
            Number::Decimal(n) => n.to_string(),
        },
    })
}

/// A number with a point, as Java writes it.
fn float(number: f64, text: String) -> String {
    match number.is_finite() && !text.contains(['.', 'e']) {
        true => format!("{text}.0"),
        false => text,
    }
}

fn day(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn clock(seconds: i64) -> String {
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

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

/// Year, month and day of days since 1970.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
