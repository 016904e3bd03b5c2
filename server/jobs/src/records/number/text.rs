//! Numbers from text and to text.

use std::fmt;

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};

use super::{DIGITS_MAX, EXPONENT_MAX, Form, Number, NumberProblem, SCALE_MAX};

/// A number that ends in zeros before the point is written with an exponent if it has more than
/// this many digits there, zeros included.
const PLAIN_DIGITS_MAX: i64 = 40;

/// A number is written with an exponent if it has more than this many zeros between the point
/// and the first other digit.
const PLAIN_ZEROS_MAX: i64 = 6;

pub(super) fn parse(text: &[u8]) -> Result<Number, NumberProblem> {
    let text = text.trim_ascii();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if let Some(number) = parse_small(is_negative, digits) {
        return Ok(number);
    }
    parse_any(is_negative, digits)
}

/// Parses digits with an optional point; `None` for other text, and for so many digits that the
/// number may not fit into 128 bits.
fn parse_small(is_negative: bool, text: &[u8]) -> Option<Number> {
    if text.len() > usize::from(SCALE_MAX) {
        return None;
    }
    // 64 bits are several times as fast as 128, and usually enough.
    let (mut low, mut high) = (0_u64, 0_i128);
    let (mut digits, mut scale, mut has_point) = (0, 0, false);
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                let digit = byte - b'0';
                if digits < 19 {
                    low = low * 10 + u64::from(digit);
                } else if digits == 19 {
                    high = i128::from(low) * 10 + i128::from(digit);
                } else {
                    high = high * 10 + i128::from(digit);
                }
                digits += 1;
                scale += u8::from(has_point);
            }
            b'.' if !has_point => has_point = true,
            _ => return None,
        }
    }
    let mantissa = match digits {
        0 => return None,
        1..=19 => i128::from(low),
        _ => high,
    };
    let mantissa = if is_negative { -mantissa } else { mantissa };
    Some(Number::small(mantissa, scale))
}

/// Checks the syntax and the size of any number, and parses it.
fn parse_any(is_negative: bool, text: &[u8]) -> Result<Number, NumberProblem> {
    let at = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match at {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let at = mantissa.iter().position(|&byte| byte == b'.');
    let (whole, part) = match at {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let are_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if !are_digits(whole) || !are_digits(part) || whole.len() + part.len() == 0 {
        return Err(NumberProblem::None);
    }
    let exponent = exponent.map_or(Ok(0), parse_exponent)?;
    if whole.len() + part.len() > DIGITS_MAX || exponent.unsigned_abs() > EXPONENT_MAX.into() {
        return Err(NumberProblem::TooLarge);
    }
    let digits = [whole, part].concat();
    let mantissa = BigInt::parse_bytes(&digits, 10).ok_or(NumberProblem::None)?;
    let mantissa = if is_negative { -mantissa } else { mantissa };
    let scale = part.len() as i64 - exponent;
    Ok(Number::from_big(BigDecimal::new(mantissa, scale)))
}

/// Parses the exponent after the `e`, however many digits it has.
fn parse_exponent(text: &[u8]) -> Result<i64, NumberProblem> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NumberProblem::None);
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
    Ok(sign * digits.iter().fold(0, add))
}

impl Number {
    /// Returns three things: whether the number is negative, its significant digits (without zeros
    /// at either end), and the exponent in `0.DIGITS * 10^exponent`. Zero has no digits.
    pub(super) fn digits(&self) -> (bool, String, i64) {
        let (is_negative, mut digits, scale) = match &self.0 {
            Form::Small { mantissa, scale } => {
                let size = mantissa.unsigned_abs();
                // Several times as fast as with 128 bits, and sorts need the digits of
                // every row.
                let digits = match u64::try_from(size) {
                    Ok(size) => size.to_string(),
                    Err(_) => size.to_string(),
                };
                (*mantissa < 0, digits, i64::from(*scale))
            }
            Form::Big(big) => {
                let (mantissa, scale) = big.as_bigint_and_scale();
                let digits = mantissa.magnitude().to_string();
                (mantissa.sign() == Sign::Minus, digits, scale)
            }
        };
        let point = digits.len() as i64 - scale;
        digits.truncate(digits.trim_end_matches('0').len());
        if digits.is_empty() {
            (false, digits, 0)
        } else {
            (is_negative, digits, point)
        }
    }
}

/// Prints as few digits as possible: `1.50` is `1.5`. Very large and very small numbers have an
/// exponent: `1e400`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_negative, digits, point) = self.digits();
        if digits.is_empty() {
            return f.write_str("0");
        }
        if is_negative {
            f.write_str("-")?;
        }
        let length = digits.len() as i64;
        if point > PLAIN_DIGITS_MAX.max(length) || point < -PLAIN_ZEROS_MAX {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            return write!(f, "{first}{dot}{rest}e{}", point - 1);
        }
        let zeros = |count: i64| "0".repeat(count as usize);
        match point {
            ..=0 => write!(f, "0.{}{digits}", zeros(-point)),
            point if point >= length => write!(f, "{digits}{}", zeros(point - length)),
            point => {
                let (whole, part) = digits.split_at(point as usize);
                write!(f, "{whole}.{part}")
            }
        }
    }
}
