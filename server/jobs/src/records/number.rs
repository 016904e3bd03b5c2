//! Exact numbers: read from text, added up, compared and written without rounding.
//!
//! A number is a mantissa and a power of ten. Nearly all numbers fit into 128 bits and need no
//! allocation, so sums over columns are as fast as with floats. The others use `bigdecimal`.
//! [`Number::parse`] rejects numbers beyond [`DIGITS_MAX`] and [`EXPONENT_MAX`], so that
//! `1e999999999` takes no memory. Only [`Number::mean`] rounds.

mod encoding;
mod order;
mod text;

use std::cmp::Ordering;
use std::num::NonZeroU64;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode};

pub use order::ordered_text;

/// The largest number of digits of a number in text, including leading and trailing zeros.
pub const DIGITS_MAX: usize = 1000;

/// The largest exponent of a number in text, positive or negative.
pub const EXPONENT_MAX: u32 = 1000;

/// The number of significant digits of a mean.
pub const MEAN_DIGITS: NonZeroU64 = NonZeroU64::new(20).unwrap();

/// The exponent of the largest power of ten that fits into a signed integer of 128 bits.
const SCALE_MAX: u8 = 38;

/// A decimal number of any size.
#[derive(Debug, Clone)]
pub struct Number(Form);

#[derive(Debug, Clone)]
enum Form {
    /// The number `mantissa / 10^scale`, with a scale of at most [`SCALE_MAX`].
    Small {
        mantissa: i128,
        scale: u8,
    },
    Big(BigDecimal),
}

/// The reason why text is not accepted as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberProblem {
    /// The text is not a number.
    #[error("is no number")]
    None,
    /// The number would take too much memory to be exact.
    #[error(
        "is a number with more than {DIGITS_MAX} digits or an exponent beyond {EXPONENT_MAX}, which is not computed exactly"
    )]
    TooLarge,
}

impl Number {
    /// Parses digits, an optional point and an optional exponent, as in `-12.50` or
    /// `6.02e23`. Blanks around the number are allowed.
    ///
    /// # Errors
    /// When the text is not a number (`inf` and `nan` are none), or is a number beyond
    /// [`DIGITS_MAX`] or [`EXPONENT_MAX`].
    pub fn parse(text: &[u8]) -> Result<Self, NumberProblem> {
        text::parse(text)
    }

    /// Returns this number divided by `parts`, rounded to [`MEAN_DIGITS`] significant digits (a tie
    /// to the even digit); zero if `parts` is 0.
    #[must_use]
    pub fn mean(&self, parts: u64) -> Self {
        if parts == 0 {
            return Self::default();
        }
        // To a hundred digits, far more than the result keeps.
        let quotient = self.big() / BigDecimal::from(parts);
        Self::from_big(quotient.with_precision_round(MEAN_DIGITS, RoundingMode::HalfEven))
    }

    /// Returns the nearest float; infinity beyond the range of floats.
    pub fn to_f64(&self) -> f64 {
        /// Powers of ten that are exact as floats.
        const EXACT: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
        ];
        match &self.0 {
            // One correctly rounded division of two exact floats.
            Form::Small { mantissa, scale }
                if mantissa.unsigned_abs() < 1 << 53 && usize::from(*scale) < EXACT.len() =>
            {
                *mantissa as f64 / EXACT[usize::from(*scale)]
            }
            // A float that is parsed from text is correctly rounded too.
            _ => self.to_string().parse().expect("a number in digits"),
        }
    }

    fn small(mantissa: i128, scale: u8) -> Self {
        Self(Form::Small { mantissa, scale })
    }

    fn big(&self) -> BigDecimal {
        match &self.0 {
            Form::Small { mantissa, scale } => {
                BigDecimal::new(BigInt::from(*mantissa), i64::from(*scale))
            }
            Form::Big(big) => big.clone(),
        }
    }

    fn from_big(big: BigDecimal) -> Self {
        let (mantissa, scale) = big.as_bigint_and_scale();
        let small = i128::try_from(mantissa.as_ref()).ok();
        let small = small.and_then(|mantissa| {
            // A power of ten above the mantissa's last digit is multiplied into the
            // mantissa.
            let above = u32::try_from((-scale).max(0)).ok()?;
            let mantissa = mantissa.checked_mul(10_i128.checked_pow(above)?)?;
            let scale = u8::try_from(scale.max(0)).ok()?;
            (scale <= SCALE_MAX).then_some(Self::small(mantissa, scale))
        });
        small.unwrap_or(Self(Form::Big(big)))
    }
}

impl Default for Number {
    fn default() -> Self {
        Self::small(0, 0)
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::small(number.into(), 0)
    }
}

/// Scales two numbers (each a mantissa and a scale) to the larger of their scales. Returns their
/// new mantissas, and this scale; `None` if a new mantissa does not fit into 128 bits.
fn aligned((a, at): (i128, u8), (b, bt): (i128, u8)) -> Option<(i128, i128, u8)> {
    let up = |mantissa: i128, by: u8| mantissa.checked_mul(10_i128.checked_pow(by.into())?);
    match at.cmp(&bt) {
        Ordering::Equal => Some((a, b, at)),
        Ordering::Less => Some((up(a, bt - at)?, b, bt)),
        Ordering::Greater => Some((a, up(b, at - bt)?, at)),
    }
}

impl std::ops::AddAssign<&Number> for Number {
    fn add_assign(&mut self, other: &Number) {
        if let (
            Form::Small { mantissa, scale },
            &Form::Small {
                mantissa: more,
                scale: more_scale,
            },
        ) = (&mut self.0, &other.0)
        {
            let sum = aligned((*mantissa, *scale), (more, more_scale))
                .and_then(|(a, b, scale)| Some((a.checked_add(b)?, scale)));
            if let Some((sum, sum_scale)) = sum {
                (*mantissa, *scale) = (sum, sum_scale);
                return;
            }
        }
        *self = Self::from_big(self.big() + other.big());
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (
            &Form::Small { mantissa, scale },
            &Form::Small {
                mantissa: other,
                scale: other_scale,
            },
        ) = (&self.0, &other.0)
            && let Some((a, b, _)) = aligned((mantissa, scale), (other, other_scale))
        {
            return a.cmp(&b);
        }
        self.big().cmp(&other.big())
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

#[cfg(test)]
mod tests;
