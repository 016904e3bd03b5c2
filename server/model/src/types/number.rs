//! Numbers of any size: `varint` and `decimal`.
//!
//! A `varint` is a two's complement integer, big endian, not necessarily of minimal length.
//! A `decimal` is a scale of 32 bits and a `varint`; its value is `varint * 10^-scale`.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

use super::Charge;

/// The length in bytes of the longest integer that is printed in decimal, one of 100,000 digits. The
/// time to print one grows with the square of its length, and is about 15 ms for this length.
pub const DIGITS_BYTES_MAX: usize = 41_525;

/// The maximal length of a comparable `decimal`, in bytes with its scale: the maximal length of a
/// key. Comparing two such numbers takes some milliseconds; without a bound it would take minutes.
pub const DECIMAL_BYTES_MAX: usize = 65_535;

/// Returns the cost of printing a number of `bytes` bytes in decimal, for limits on work. The unit
/// is the cost of a byte in a plain comparison, about a nanosecond. Each byte of the number from
/// the 17th on costs 256 units; the first 16 bytes cost nothing.
pub fn digits_bytes(bytes: usize) -> usize {
    256 * bytes.saturating_sub(16)
}

/// Returns a `varint` without its redundant leading sign bytes.
pub fn minimal(mut bytes: &[u8]) -> &[u8] {
    while let [first @ (0 | 0xff), second, ..] = bytes {
        if (first ^ second) & 0x80 != 0 {
            break;
        }
        bytes = &bytes[1..];
    }
    bytes
}

/// Returns whether a `varint` of at least one byte is negative.
pub fn is_negative(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|b| b & 0x80 != 0)
}

/// Compares two `varint`s by value, empty ones first. Redundant leading bytes do not count. Of two
/// `varint`s with the same sign, the longer one then has the greater absolute value, and those of
/// the same length sort as their bytes.
pub fn compare_varints(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (minimal(a), minimal(b));
    let rank = |bytes: &[u8]| match bytes {
        [] => 0,
        _ if is_negative(bytes) => 1,
        _ => 2,
    };
    let by_length = if is_negative(a) {
        b.len().cmp(&a.len())
    } else {
        a.len().cmp(&b.len())
    };
    rank(a).cmp(&rank(b)).then(by_length).then(a.cmp(b))
}

/// Compares two `decimal`s by value: 1.0 equals 1.00. `None` if one of them is
/// [not comparable](is_comparable).
pub fn compare_decimals(a: &[u8], b: &[u8]) -> Option<Ordering> {
    let ((a_scale, a_unscaled), (b_scale, b_unscaled)) = (comparable(a)?, comparable(b)?);
    if a_scale == b_scale {
        return Some(compare_varints(a_unscaled, b_unscaled));
    }
    let (a_sign, a_size) = BigInt::from_signed_bytes_be(a_unscaled).into_parts();
    let (b_sign, b_size) = BigInt::from_signed_bytes_be(b_unscaled).into_parts();
    let by_size = || compare_scaled((&a_size, a_scale), (&b_size, b_scale));
    Some(a_sign.cmp(&b_sign).then_with(|| match a_sign {
        Sign::Minus => by_size().reverse(),
        Sign::NoSign => Ordering::Equal,
        Sign::Plus => by_size(),
    }))
}

/// Returns an upper bound for the cost of [`compare_decimals`] of two values. The unit is the number
/// of bytes that a plain comparison reads in the same time.
pub fn comparison_bytes(a: &[u8], b: &[u8]) -> usize {
    /// The cost of each byte of two numbers with different scales, as a number of bytes of a plain
    /// comparison. One number is multiplied by a power of ten: comparing two such numbers of 64 KiB
    /// takes up to 8 ms, and a plain comparison reads about 64 times the bytes of both in this
    /// time.
    const OF_A_POWER: usize = 64;
    match (comparable(a), comparable(b)) {
        (Some((a_scale, _)), Some((b_scale, _))) if a_scale != b_scale => {
            OF_A_POWER * (a.len() + b.len())
        }
        _ => a.len().min(b.len()),
    }
}

/// Returns whether this `decimal` can be compared with others as a number: it has a scale and at
/// least one byte of digits, and is no longer than [`DECIMAL_BYTES_MAX`].
pub fn is_comparable(decimal: &[u8]) -> bool {
    comparable(decimal).is_some()
}

fn comparable(decimal: &[u8]) -> Option<(i32, &[u8])> {
    split_decimal(decimal).filter(|_| decimal.len() <= DECIMAL_BYTES_MAX)
}

/// Returns whether a `decimal` equals the result of [`Digits::to_decimal`] for its value: the
/// encoding with the least scale and the fewest bytes. Only the last digit is computed.
pub fn has_least_scale(decimal: &[u8]) -> bool {
    let Some((scale, unscaled)) = comparable(decimal) else {
        return false;
    };
    if minimal(unscaled).len() < unscaled.len() {
        return false;
    }
    let unscaled = BigInt::from_signed_bytes_be(unscaled);
    match unscaled.sign() {
        Sign::NoSign => scale == 0,
        // A number with the least scale that exists keeps its zeros.
        Sign::Minus | Sign::Plus => scale == i32::MIN || unscaled % 10_u32 != BigInt::ZERO,
    }
}

/// Compares two numbers above zero, each a magnitude times `10^-scale`.
///
/// The number of bits decides unless the numbers are about equal. Only if they are, one magnitude
/// is multiplied by the power of ten between the scales. This power then has about as many digits
/// as the longer magnitude, or fewer. So 1e2000000000 is never expanded.
fn compare_scaled((a, a_scale): (&BigUint, i32), (b, b_scale): (&BigUint, i32)) -> Ordering {
    if a_scale > b_scale {
        return compare_scaled((b, b_scale), (a, a_scale)).reverse();
    }
    let shift = i64::from(b_scale) - i64::from(a_scale);
    let (a_bits, b_bits) = (a.bits() as i64, b.bits() as i64);
    // A number of n bits is at least 2^(n-1) and below 2^n; ten lies between 2^3.32 and 2^3.33.
    if a_bits - 1 + shift * 332 / 100 >= b_bits {
        return Ordering::Greater;
    }
    if a_bits + shift * 333 / 100 + 1 < b_bits {
        return Ordering::Less;
    }
    (a * BigUint::from(10_u32).pow(shift as u32)).cmp(b)
}

/// The canonical form of a `decimal`, the same for all encodings of one value:
/// `sign * 0.d1 d2 ... dn * 10^exponent`, where neither `d1` nor `dn` is zero.
///
/// The exponent is never expanded: 1e2000000000 has one digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digits {
    /// The sign of the number. Zero has no digits and the exponent 0.
    pub sign: Sign,
    /// The exponent of ten: the number of digits before the decimal point; if it is negative, there
    /// are as many zeros between the point and the first digit.
    pub exponent: i64,
    /// The digits 0 to 9, the most significant first.
    pub digits: Vec<u8>,
}

impl Digits {
    /// Returns the canonical form of a `decimal`; `None` if it is [not comparable](is_comparable).
    pub fn of(decimal: &[u8]) -> Option<Self> {
        let (scale, unscaled) = comparable(decimal)?;
        let (sign, magnitude) = BigInt::from_signed_bytes_be(unscaled).into_parts();
        if sign == Sign::NoSign {
            return Some(Self {
                sign,
                exponent: 0,
                digits: Vec::new(),
            });
        }
        let mut digits = magnitude.to_radix_be(10);
        let exponent = digits.len() as i64 - i64::from(scale);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Some(Self {
            sign,
            exponent,
            digits,
        })
    }

    /// Returns the `decimal` of this value with the least scale: 1.00 gives 1. `None` if no scale of
    /// 32 bits fits. Reports the work to `charge` before it computes the number from its digits.
    ///
    /// # Errors
    /// The error of `charge`.
    pub fn to_decimal<E>(&self, charge: Charge<'_, E>) -> Result<Option<Vec<u8>>, E> {
        if self.digits.is_empty() {
            return Ok(Some(decimal(0, &BigInt::ZERO)));
        }
        let Some((scale, digits)) = self.least_scale() else {
            return Ok(None);
        };
        // Two digits count as a byte. A byte has 2.4 digits, so the charge is not too low.
        charge(digits_bytes(digits.len() / 2))?;
        let unscaled = BigInt::from_radix_be(self.sign, &digits, 10);
        Ok(unscaled.map(|unscaled| decimal(scale, &unscaled)))
    }

    /// Returns the least scale of a number that is not zero, and all digits of its unscaled value.
    /// `None` if no scale of 32 bits fits, or if the digits would need more than 2^18 zeros at
    /// their end: no comparable decimal has that many.
    fn least_scale(&self) -> Option<(i32, Vec<u8>)> {
        let mut digits = self.digits.clone();
        let mut scale = (digits.len() as i64).checked_sub(self.exponent)?;
        // The value has the least possible scale and digits that ended in zeros: restores these
        // zeros.
        const ZEROS_MAX: i64 = 1 << 18;
        let missing = i64::from(i32::MIN).checked_sub(scale)?;
        if missing > 0 {
            if missing > ZEROS_MAX {
                return None;
            }
            digits.resize(digits.len() + missing as usize, 0);
            scale = i64::from(i32::MIN);
        }
        Some((i32::try_from(scale).ok()?, digits))
    }
}

/// Splits a `decimal` into its scale and its unscaled value, a `varint`; `None` if there are fewer
/// than five bytes, so that the scale is incomplete or the unscaled value is empty.
pub fn split_decimal(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (scale, unscaled) = super::elements::split_i32(bytes)?;
    (!unscaled.is_empty()).then_some((scale, unscaled))
}

/// Encodes a `decimal`: four bytes of scale, then the unscaled value as a `varint`.
pub fn decimal(scale: i32, unscaled: &BigInt) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    out.extend(unscaled.to_signed_bytes_be());
    out
}
