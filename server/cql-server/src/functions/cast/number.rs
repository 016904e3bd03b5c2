//! Numbers of all types, converted as by Java's `Number`: `intValue()` of an integer keeps the low
//! bits, that of a `double` is the nearest `int`, and `longValue()` of a decimal has the low 64
//! bits of the integer part.

use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::{BigDecimal, ToPrimitive};
use ebb_model::types::{CqlType, number};

use super::printed;

pub enum Number {
    /// A value of an integer type of at most 64 bits.
    Integer(i64),
    Big(BigInt),
    Float(f64),
    Decimal(BigDecimal),
}

impl Number {
    pub fn is_of(ty: &CqlType) -> bool {
        super::NUMBERS.contains(ty)
    }

    /// Decodes a value of a type; `None` for an empty or damaged value.
    pub fn read(ty: &CqlType, bytes: &[u8]) -> Option<Self> {
        Some(match ty {
            CqlType::Tinyint => Self::Integer(i8::from_be_bytes(bytes.try_into().ok()?).into()),
            CqlType::Smallint => Self::Integer(i16::from_be_bytes(bytes.try_into().ok()?).into()),
            CqlType::Int => Self::Integer(i32::from_be_bytes(bytes.try_into().ok()?).into()),
            CqlType::Bigint | CqlType::Counter => {
                Self::Integer(i64::from_be_bytes(bytes.try_into().ok()?))
            }
            CqlType::Float => Self::Float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
            CqlType::Double => Self::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
            CqlType::Varint if !bytes.is_empty() => Self::Big(BigInt::from_signed_bytes_be(bytes)),
            CqlType::Decimal => {
                let (scale, unscaled) = number::split_decimal(bytes)?;
                let unscaled = BigInt::from_signed_bytes_be(unscaled);
                Self::Decimal(BigDecimal::new(unscaled, scale.into()))
            }
            _ => return None,
        })
    }

    /// Encodes the number as a value of a type; `None` if the type is `decimal` and the number is
    /// not finite or has a scale beyond 32 bits.
    ///
    /// Takes time quadratic in the digits of a decimal, which the caller limits.
    pub fn write(&self, ty: &CqlType) -> Option<Vec<u8>> {
        Some(match ty {
            CqlType::Tinyint => (self.to_i32()? as i8).to_be_bytes().to_vec(),
            CqlType::Smallint => (self.to_i32()? as i16).to_be_bytes().to_vec(),
            CqlType::Int => self.to_i32()?.to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Counter => self.to_i64()?.to_be_bytes().to_vec(),
            CqlType::Float => self.to_f32()?.to_be_bytes().to_vec(),
            CqlType::Double => self.to_f64()?.to_be_bytes().to_vec(),
            CqlType::Varint => self.to_big()?.to_signed_bytes_be(),
            CqlType::Decimal => {
                let (unscaled, scale) = self.to_decimal()?.into_bigint_and_exponent();
                number::decimal(i32::try_from(scale).ok()?, &unscaled)
            }
            _ => return None,
        })
    }

    /// Returns the error message for a number that [`write`](Self::write) cannot convert into a
    /// decimal.
    pub fn refusal(&self) -> &'static str {
        match self {
            Self::Float(n) if n.is_nan() => "A NaN cannot be converted into a decimal",
            _ => "An infinite number cannot be converted into a decimal",
        }
    }

    fn to_i32(&self) -> Option<i32> {
        match self {
            Self::Float(n) => Some(*n as i32),
            _ => Some(self.to_i64()? as i32),
        }
    }

    /// Converts as Java's `longValue()` does: an integer or decimal keeps the low 64 bits of its
    /// integer part, and a `double` loses its fraction and is clamped to the range of `long`.
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(n) => Some(*n),
            Self::Float(n) => Some(*n as i64),
            Self::Big(n) => Some(low_bits(n)),
            Self::Decimal(n) => Some(low_bits_of_whole(n)),
        }
    }

    fn to_f32(&self) -> Option<f32> {
        match self {
            Self::Integer(n) => Some(*n as f32),
            Self::Float(n) => Some(*n as f32),
            Self::Big(n) => n.to_f32(),
            Self::Decimal(n) => scientific(n).parse().ok(),
        }
    }

    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Float(n) => Some(*n),
            Self::Big(n) => n.to_f64(),
            Self::Decimal(n) => scientific(n).parse().ok(),
        }
    }

    /// Converts to a `varint`. A number that is no `varint` is converted by
    /// [`to_i64`](Self::to_i64), which cuts the fraction. So the result has at most 64 bits, even
    /// for a large `decimal`: Cassandra uses Java's `longValue()` here.
    pub fn to_big(&self) -> Option<BigInt> {
        match self {
            Self::Big(n) => Some(n.clone()),
            _ => self.to_i64().map(BigInt::from),
        }
    }

    /// Converts to a decimal; `None` if the number is not finite. The decimal of a `double` has the
    /// digits of the printed number, as from Java's `BigDecimal.valueOf`. For example, the decimal
    /// of 1.0 has one digit after the point.
    pub fn to_decimal(&self) -> Option<BigDecimal> {
        match self {
            Self::Integer(n) => Some(BigDecimal::from(*n)),
            Self::Float(n) => decimal_of(&printed::double(*n)),
            Self::Big(n) => Some(BigDecimal::from(n.clone())),
            Self::Decimal(n) => Some(n.clone()),
        }
    }
}

/// Returns the low 64 bits of an integer in two's complement.
fn low_bits(number: &BigInt) -> i64 {
    let low = number.iter_u64_digits().next().unwrap_or(0) as i64;
    match number.sign() {
        Sign::Minus => low.wrapping_neg(),
        Sign::NoSign | Sign::Plus => low,
    }
}

/// Returns the low 64 bits of the integer part of a decimal.
fn low_bits_of_whole(decimal: &BigDecimal) -> i64 {
    let (unscaled, scale) = decimal.as_bigint_and_scale();
    match scale {
        0 => low_bits(&unscaled),
        // 10^64 is a multiple of 2^64.
        ..=-64 => 0,
        -63..0 => {
            low_bits(&unscaled).wrapping_mul(10_i64.wrapping_pow(scale.unsigned_abs() as u32))
        }
        // A decimal digit has more than three bits.
        1.. if scale.unsigned_abs() > unscaled.bits() / 3 + 1 => 0,
        1.. => low_bits(&(&*unscaled / BigInt::from(10).pow(scale as u32))),
    }
}

/// Prints a decimal in a form that Rust can parse as a float, such as `12e-1`.
fn scientific(decimal: &BigDecimal) -> String {
    let (unscaled, scale) = decimal.as_bigint_and_scale();
    format!("{unscaled}e{}", -scale)
}

/// Parses a printed `double` as a decimal, with all printed digits after the point. `None` for NaN
/// and infinite numbers.
fn decimal_of(printed: &str) -> Option<BigDecimal> {
    let (mantissa, exponent) = printed.split_once('E').unwrap_or((printed, "0"));
    let (whole, fraction) = mantissa.split_once('.')?;
    let unscaled: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let exponent: i64 = exponent.parse().ok()?;
    Some(BigDecimal::new(unscaled, fraction.len() as i64 - exponent))
}
