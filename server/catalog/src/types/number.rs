//! Numbers of any size: `varint` and `decimal`.
//!
//! A `varint` is a two's complement integer, big endian, not necessarily of the fewest bytes.
//! A `decimal` is a scale of 32 bits and a `varint`; its value is `varint * 10^-scale`.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// A `varint` without the bytes that only repeat its sign.
pub fn minimal(mut bytes: &[u8]) -> &[u8] {
    while let [first @ (0 | 0xff), second, ..] = bytes {
        if (first ^ second) & 0x80 != 0 {
            break;
        }
        bytes = &bytes[1..];
    }
    bytes
}

/// Whether a `varint` that is not empty lies below zero.
pub fn is_negative(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|b| b & 0x80 != 0)
}

/// The order of two `varint`s by value, empty ones first. Of two that have one sign and
/// as many bytes the order is that of their bytes.
pub fn compare_varints(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (minimal(a), minimal(b));
    let rank = |bytes: &[u8]| match bytes {
        [] => 0,
        _ if is_negative(bytes) => 1,
        _ => 2,
    };
    let by_length = match is_negative(a) {
        true => b.len().cmp(&a.len()),
        false => a.len().cmp(&b.len()),
    };
    rank(a).cmp(&rank(b)).then(by_length).then(a.cmp(b))
}

/// A `decimal` in the one form that all its spellings share:
/// `sign * 0.d1 d2 ... dn * 10^exponent`, where neither `d1` nor `dn` is zero.
///
/// The exponent is never expanded: 1e2000000000 has one digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digits {
    /// Zero has no digits and exponent 0.
    pub sign: Sign,
    /// Where the point stands, relative to the first digit.
    pub exponent: i64,
    /// 0 to 9 each, the most significant first.
    pub digits: Vec<u8>,
}

impl Digits {
    /// Of a `decimal` that is not empty; `None` where it is shorter than a scale and a digit.
    pub fn of(decimal: &[u8]) -> Option<Self> {
        let (scale, unscaled) = split_decimal(decimal)?;
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

    /// The `decimal` of this value with the least scale, which is one of its spellings:
    /// 1.00 gives 1. `None` where no scale of 32 bits can say it.
    pub fn to_decimal(&self) -> Option<Vec<u8>> {
        let mut digits = self.digits.clone();
        if digits.is_empty() {
            return Some(decimal(0, &BigInt::ZERO));
        }
        let mut scale = (digits.len() as i64).checked_sub(self.exponent)?;
        // A value of the least scale whose digits ended in zeros: they come back.
        const ZEROS_MAX: i64 = 1 << 18;
        let missing = i64::from(i32::MIN).checked_sub(scale)?;
        if missing > 0 {
            if missing > ZEROS_MAX {
                return None;
            }
            digits.resize(digits.len() + missing as usize, 0);
            scale = i64::from(i32::MIN);
        }
        let unscaled = BigInt::from_radix_be(self.sign, &digits, 10)?;
        Some(decimal(i32::try_from(scale).ok()?, &unscaled))
    }
}

impl Ord for Digits {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = || (self.exponent, &self.digits).cmp(&(other.exponent, &other.digits));
        self.sign.cmp(&other.sign).then_with(|| match self.sign {
            Sign::Minus => magnitude().reverse(),
            Sign::NoSign => Ordering::Equal,
            Sign::Plus => magnitude(),
        })
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Scale and unscaled value of a `decimal`.
pub fn split_decimal(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (scale, unscaled) = super::elements::split_i32(bytes)?;
    (!unscaled.is_empty()).then_some((scale, unscaled))
}

/// The bytes of a `decimal`.
pub fn decimal(scale: i32, unscaled: &BigInt) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    out.extend(unscaled.to_signed_bytes_be());
    out
}
