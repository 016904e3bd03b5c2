//! `CAST(value AS type)` of native types.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, FromPrimitive, ToPrimitive};
use ebb_catalog::types::{CqlType, number};

use super::{Function, scalar, text};
use crate::error::{Result, invalid};

/// The function that casts.
///
/// # Errors
/// In Cassandra's words, where there is none for these types.
pub fn cast(from: &CqlType, to: &CqlType) -> Result<Function> {
    let name = cast_name(to);
    let identity = from == to || (*from == CqlType::Ascii && *to == CqlType::Text);
    if identity {
        let body = |args: &[Option<&[u8]>], _| Ok(args[0].map(<[u8]>::to_vec));
        return Ok(Function::new(name, [from.clone()], to.clone(), body));
    }
    let is_text = matches!(to, CqlType::Text | CqlType::Ascii);
    if is_text && from.is_native() && !matches!(from, CqlType::Blob | CqlType::Duration) {
        let source = from.clone();
        let body = move |args: &[Option<&[u8]>], _| {
            let text = args[0].and_then(|bytes| text::of(&source, bytes));
            let text = text.map(|text| match source {
                // As ISO 8601 has it; JSON has a space there.
                CqlType::Timestamp => text.replacen(' ', "T", 1),
                _ => text,
            });
            Ok(text.map(String::into_bytes))
        };
        return Ok(Function::new(name, [from.clone()], to.clone(), body));
    }
    if let Some(function) = scalar::of_times(name.clone(), from, to) {
        return Ok(function);
    }
    if !is_number(from) || !is_number(to) {
        return invalid(format!("{from} cannot be cast to {to}"));
    }
    let (source, target) = (from.clone(), to.clone());
    let body = move |args: &[Option<&[u8]>], _| {
        let value = args[0].and_then(|bytes| Number::read(&source, bytes));
        Ok(value.and_then(|value| value.write(&target)))
    };
    Ok(Function::new(name, [from.clone()], to.clone(), body))
}

/// As it is called: `system.castAsInt`.
pub fn cast_name(to: &CqlType) -> String {
    let ty = to.to_string();
    let (first, rest) = ty.split_at(1);
    format!("system.castAs{}{rest}", first.to_uppercase())
}

fn is_number(ty: &CqlType) -> bool {
    use CqlType as T;
    matches!(
        ty,
        T::Tinyint
            | T::Smallint
            | T::Int
            | T::Bigint
            | T::Counter
            | T::Varint
            | T::Float
            | T::Double
            | T::Decimal
    )
}

/// A number of any of the types.
pub enum Number {
    /// Of a type of 64 bits or less.
    Integer(i64),
    /// `varint`.
    Big(BigInt),
    /// `float`, `double`.
    Float(f64),
    /// `decimal`.
    Decimal(BigDecimal),
}

impl Number {
    /// Whether values of a type are numbers.
    pub fn is_of(ty: &CqlType) -> bool {
        is_number(ty)
    }

    /// From the bytes of a type; none for empty or damaged ones.
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

    /// As a value of a type, cut off as Java's conversions do; none where it has no such.
    pub fn write(&self, ty: &CqlType) -> Option<Vec<u8>> {
        Some(match ty {
            CqlType::Tinyint => (self.to_i64()? as i8).to_be_bytes().to_vec(),
            CqlType::Smallint => (self.to_i64()? as i16).to_be_bytes().to_vec(),
            CqlType::Int => (self.to_i64()? as i32).to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Counter => self.to_i64()?.to_be_bytes().to_vec(),
            CqlType::Float => (self.to_f64()? as f32).to_be_bytes().to_vec(),
            CqlType::Double => self.to_f64()?.to_be_bytes().to_vec(),
            CqlType::Varint => self.to_big()?.to_signed_bytes_be(),
            CqlType::Decimal => {
                let (unscaled, scale) = self.to_decimal()?.into_bigint_and_exponent();
                number::decimal(i32::try_from(scale).ok()?, &unscaled)
            }
            _ => return None,
        })
    }

    /// Cut off as Java's conversions do.
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(n) => Some(*n),
            Self::Float(n) => Some(*n as i64),
            Self::Big(n) => n.to_i64(),
            Self::Decimal(n) => is_small(n).then(|| n.to_i64()).flatten(),
        }
    }

    /// The nearest `double`.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Float(n) => Some(*n),
            Self::Big(n) => n.to_f64(),
            Self::Decimal(n) => is_small(n).then(|| n.to_f64()).flatten(),
        }
    }

    /// Without what is behind the point.
    pub fn to_big(&self) -> Option<BigInt> {
        match self {
            Self::Integer(n) => Some(BigInt::from(*n)),
            Self::Float(n) => BigInt::from_f64(*n),
            Self::Big(n) => Some(n.clone()),
            Self::Decimal(n) => is_small(n).then(|| n.with_scale(0).into_bigint_and_exponent().0),
        }
    }

    /// As a decimal; none for what is not finite.
    pub fn to_decimal(&self) -> Option<BigDecimal> {
        match self {
            Self::Integer(n) => Some(BigDecimal::from(*n)),
            Self::Float(n) => n.to_string().parse().ok(),
            Self::Big(n) => Some(BigDecimal::from(n.clone())),
            Self::Decimal(n) => Some(n.clone()),
        }
    }
}

/// Whether the digits of a decimal may be written out.
fn is_small(decimal: &BigDecimal) -> bool {
    decimal.as_bigint_and_exponent().1.abs() <= 100_000
}
