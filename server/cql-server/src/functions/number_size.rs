//! Limits on the size of `varint` and `decimal` operands. Stored values may have any size, so they
//! are checked before anything is computed from them: no single operation takes long.
//!
//! A decimal of five bytes, 1e1000000000, has a gigabyte of digits when it is written out. So the
//! scale of a decimal is limited like its length.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use ebb_model::types::CqlType;
use ebb_model::types::number::{DIGITS_BYTES_MAX, minimal, split_decimal};

/// The most bytes of operands and results: about ten thousand digits, the limit of Cassandra's
/// decimals. With longer ones a short statement could fill the memory.
const NUMBER_BYTES_MAX: u64 = 4160;
/// The largest absolute value of a decimal's scale: its digits after the point or, for a negative
/// scale, its zeros before the point.
const SCALE_MAX: u64 = 10_000;

/// The result of a check of a number. The error is the reason why the number is rejected.
pub type Checked = std::result::Result<(), &'static str>;

/// Checks the size of an integer that is an operand or a result.
///
/// # Errors
/// The reason why the number is rejected.
pub fn check_integer(number: &BigInt) -> Checked {
    if number.bits() / 8 >= NUMBER_BYTES_MAX {
        return Err("a number has more than 10000 digits");
    }
    Ok(())
}

/// Checks the size of a decimal that is an operand or a result.
///
/// # Errors
/// The reason why the number is rejected.
pub fn check_decimal(number: &BigDecimal) -> Checked {
    let (unscaled, scale) = number.as_bigint_and_scale();
    if scale.unsigned_abs() > SCALE_MAX {
        return Err("a number has more than 10000 places");
    }
    check_integer(&unscaled)
}

/// Checks that the digits of a stored value may be written out. Values of other types than numbers
/// pass.
///
/// # Errors
/// The reason why the number is rejected.
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

/// Returns the approximate microseconds for writing or reading the digits of a number of `bytes`
/// bytes, in addition to the cost that every value has.
pub fn digits_units(bytes: usize) -> u64 {
    bytes.saturating_sub(16) as u64 / 4
}

/// Returns an upper bound, in approximate microseconds, of the time of an operation on an integer.
pub fn integer_units(number: &BigInt) -> u64 {
    number.bits().min(8 * NUMBER_BYTES_MAX) / 32
}

/// Returns an upper bound, in approximate microseconds, of the time of an operation on a decimal
/// that writes out all its digits: 1e1000 has 1,001.
pub fn decimal_units(number: &BigDecimal) -> u64 {
    let (unscaled, scale) = number.as_bigint_and_scale();
    integer_units(&unscaled) + scale_units(scale)
}

/// Returns the approximate time, in microseconds, of writing out the decimal places of a number
/// with this scale.
pub fn scale_units(scale: i64) -> u64 {
    scale.unsigned_abs().min(SCALE_MAX) / 8
}
