//! Bounds on `varint` and `decimal`, which have any size as they are stored: checked before
//! anything is computed of them, so that no single operation takes long.
//!
//! A decimal of five bytes, 1e1000000000, has a gigabyte of digits when it is written out: its scale
//! counts as much as its length.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use ebb_model::types::CqlType;
use ebb_model::types::number::{DIGITS_BYTES_MAX, minimal, split_decimal};

/// Operands and results have fewer bytes than this: ten thousand digits, as many as Cassandra's
/// decimals. More would let a short statement fill the memory.
const NUMBER_BYTES_MAX: u64 = 4160;
/// The most places before or behind the point.
const SCALE_MAX: u64 = 10_000;

/// The reason for which a number is refused, if it is.
pub type Checked = std::result::Result<(), &'static str>;

/// Checks an operand or a result.
///
/// # Errors
/// The reason for which nothing is computed of it.
pub fn check_integer(number: &BigInt) -> Checked {
    if number.bits() / 8 >= NUMBER_BYTES_MAX {
        return Err("a number has more than 10000 digits");
    }
    Ok(())
}

/// Checks an operand or a result.
///
/// # Errors
/// The reason for which nothing is computed of it.
pub fn check_decimal(number: &BigDecimal) -> Checked {
    let (unscaled, scale) = number.as_bigint_and_scale();
    if scale.unsigned_abs() > SCALE_MAX {
        return Err("a number has more than 10000 places");
    }
    check_integer(&unscaled)
}

/// Checks that the digits of a stored value may be written. Values of other types always may.
///
/// # Errors
/// The reason for which they are not written.
pub fn check_digits(ty: &CqlType, bytes: &[u8]) -> Checked {
    let unscaled = match ty {
        CqlType::Varint => bytes,
        CqlType::Decimal => split_decimal(bytes).map_or(&[][..], |(_, unscaled)| unscaled),
        _ => return Ok(()),
    };
    if minimal(unscaled).len() > DIGITS_BYTES_MAX {
        return Err("a number has more than 100000 digits");
    }
    Ok(())
}

/// About how many microseconds it takes to write or read the digits of a number of `bytes`, beyond
/// those that any value takes.
pub fn digits_units(bytes: usize) -> u64 {
    bytes.saturating_sub(16) as u64 / 4
}

/// About how many microseconds an operation on a number takes at most.
pub fn integer_units(number: &BigInt) -> u64 {
    number.bits().min(8 * NUMBER_BYTES_MAX) / 32
}

/// About how many microseconds an operation on a number takes at most, where its scale is written
/// out.
pub fn decimal_units(number: &BigDecimal) -> u64 {
    let (unscaled, scale) = number.as_bigint_and_scale();
    integer_units(&unscaled) + scale_units(scale)
}

/// About how many microseconds an operation takes that writes a scale out.
pub fn scale_units(scale: i64) -> u64 {
    scale.unsigned_abs().min(SCALE_MAX) / 8
}
