//! Conversions of values that are not just bytes of the same width.

use ebb_model::types::number::{self, Digits};
use ebb_model::types::{Charge, CqlType};
use num_bigint::{BigInt, Sign};

use super::{DecimalForm, ValueError};

/// CQL's `date` of 1970-01-01. A `date` is a number of days without a sign, with this day in the middle.
const EPOCH_DAY: u32 = 1 << 31;

/// Microseconds in a millisecond: CQL's timestamps are milliseconds, Iceberg's are microseconds.
const US_PER_MS: i64 = 1000;

/// Nanoseconds in a millisecond. Files of other engines may have timestamps in nanoseconds.
const NS_PER_MS: i64 = 1_000_000;

/// The most bytes of a value that an error message shows.
const SHOWN_BYTES_MAX: usize = 60;

/// Converts a CQL `date` to the number of days since 1970-01-01.
pub(super) fn days_of_date(date: u32) -> i32 {
    date.wrapping_sub(EPOCH_DAY) as i32
}

/// Converts a number of days since 1970-01-01 to a CQL `date`.
pub(super) fn date_of_days(days: i32) -> u32 {
    (days as u32).wrapping_add(EPOCH_DAY)
}

/// Converts milliseconds to microseconds.
///
/// # Errors
/// If the microseconds do not fit into 64 bits.
pub(super) fn us_of_ms(ms: i64) -> Result<i64, ValueError> {
    ms.checked_mul(US_PER_MS).ok_or(ValueError::Timestamp(ms))
}

/// Converts microseconds to milliseconds; `None` if the result is not a whole number.
pub(super) fn ms_of_us(us: i64) -> Option<i64> {
    (us % US_PER_MS == 0).then_some(us / US_PER_MS)
}

/// Converts nanoseconds to milliseconds; `None` if the result is not a whole number.
pub(super) fn ms_of_ns(ns: i64) -> Option<i64> {
    (ns % NS_PER_MS == 0).then_some(ns / NS_PER_MS)
}

/// Decodes a `varint`, which must not be empty, as the unscaled value of decimal(38, 0).
///
/// # Errors
/// If the number has more than 38 digits.
pub(super) fn unscaled_of_varint(bytes: &[u8]) -> Result<i128, ValueError> {
    let form = DecimalForm::INTEGER;
    let value = small_integer(bytes).filter(|value| has_digits(*value, form.precision));
    value.ok_or_else(|| does_not_fit(&CqlType::Varint, bytes, form))
}

/// Decodes a `decimal`, which must not be empty, as the unscaled value of a decimal with the precision and
/// scale of `form`.
///
/// # Errors
/// If the number does not fit without rounding, or if the bytes are no `decimal`; the error of `charge`.
pub(super) fn unscaled_of_decimal(
    bytes: &[u8],
    form: DecimalForm,
    charge: Charge<'_, ValueError>,
) -> Result<i128, ValueError> {
    let Some((scale, unscaled)) = number::split_decimal(bytes) else {
        return Err(ValueError::Malformed(CqlType::Decimal.to_string()));
    };
    let value = match small_integer(unscaled) {
        Some(value) if scale == i32::from(form.scale) => Some(value),
        _ => {
            charge(number::digits_bytes(bytes.len()))?;
            rescaled(bytes, form)
        }
    };
    let value = value.filter(|value| has_digits(*value, form.precision));
    value.ok_or_else(|| does_not_fit(&CqlType::Decimal, bytes, form))
}

/// Returns the unscaled value of `decimal` at the scale of `form`. Returns `None` if the scale would cut off
/// digits other than zeros, if the number then has more than 38 digits, or if `decimal` is malformed or too
/// long to be computed.
fn rescaled(decimal: &[u8], form: DecimalForm) -> Option<i128> {
    let Digits {
        sign,
        exponent,
        digits,
    } = Digits::of(decimal)?;
    let scale_min = digits.len() as i64 - exponent;
    let zeros = i64::from(form.scale) - scale_min;
    if sign == Sign::NoSign {
        return Some(0);
    }
    let length = digits.len() as i64 + zeros;
    if zeros < 0 || length > i64::from(DecimalForm::PRECISION_MAX) {
        return None;
    }
    let zeros = std::iter::repeat_n(0, zeros as usize);
    let magnitude = digits.into_iter().chain(zeros);
    let magnitude = magnitude.fold(0_i128, |sum, digit| sum * 10 + i128::from(digit));
    Some(match sign {
        Sign::Minus => -magnitude,
        _ => magnitude,
    })
}

/// Decodes a two's complement integer, big endian; `None` if there are no bytes, or if the integer does not
/// fit into 128 bits.
fn small_integer(bytes: &[u8]) -> Option<i128> {
    let bytes = number::minimal(bytes);
    let first = *bytes.first()?;
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    let mut whole = [fill; size_of::<i128>()];
    let at = whole.len().checked_sub(bytes.len())?;
    whole[at..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

/// Returns whether `unscaled` has at most `precision` decimal digits.
fn has_digits(unscaled: i128, precision: u8) -> bool {
    unscaled.unsigned_abs() < 10_u128.pow(precision.into())
}

fn does_not_fit(ty: &CqlType, bytes: &[u8], form: DecimalForm) -> ValueError {
    ValueError::Decimal {
        value: shown(ty.literal(bytes)),
        precision: form.precision,
        scale: form.scale,
    }
}

/// Shortens the text of a value for an error message to [`SHOWN_BYTES_MAX`], and marks the cut by `...`.
pub(super) fn shown(mut value: String) -> String {
    if value.len() > SHOWN_BYTES_MAX {
        value.truncate(value.floor_char_boundary(SHOWN_BYTES_MAX));
        value.push_str("...");
    }
    value
}

/// Encodes a number as a CQL `varint`.
pub(super) fn varint(value: i128) -> Vec<u8> {
    BigInt::from(value).to_signed_bytes_be()
}

/// Encodes the number `unscaled` / 10^`scale` as a CQL `decimal`.
pub(super) fn decimal(unscaled: i128, scale: i32) -> Vec<u8> {
    number::decimal(scale, &BigInt::from(unscaled))
}

/// Returns the text of a value: the CQL literal, without quotes. A value of `text` or `ascii` is returned as
/// it is; the text of any other value is written to `out`, which is cleared before. Such a value must not be
/// empty, and `ty` must be a type that is published as text.
///
/// # Errors
/// If the bytes are not a value of the type, or if the number has too many digits to write them; the error of
/// `charge`.
pub(super) fn write_text<'a>(
    ty: &CqlType,
    value: &'a [u8],
    out: &'a mut Vec<u8>,
    charge: Charge<'_, ValueError>,
) -> Result<&'a str, ValueError> {
    let malformed = || ValueError::Malformed(ty.to_string());
    if matches!(ty, CqlType::Text | CqlType::Ascii) {
        return std::str::from_utf8(value).map_err(|_| malformed());
    }
    ty.validate(value).map_err(|_| malformed())?;
    out.clear();
    ty.try_write_text(value, out, charge)?;
    // The literal of a number that is too long to be written is hexadecimal.
    if matches!(ty, CqlType::Decimal | CqlType::Varint) && out.starts_with(b"0x") {
        return Err(ValueError::TooLong(ty.to_string()));
    }
    std::str::from_utf8(out).map_err(|_| malformed())
}
