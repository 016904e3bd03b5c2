//! `+`, `-`, `*`, `/`, `%` and the minus sign as in Cassandra 4.1's `OperationFcts`: on numbers, on
//! times with durations, and `+` on texts.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::{Add, Div, Mul, Rem, Sub};

use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::{BigDecimal, Zero};
use ebb_cql::syntax::ast::ArithmeticOperator as Operator;
use ebb_model::types::CqlType;
use ebb_model::types::literal::{Duration, add_months};

use super::cast::Number;
use super::number_size::{check_decimal, check_integer, decimal_units, integer_units};
use super::printed::{DATE_EPOCH, MS_PER_DAY};
use super::{Function, failure, printed};
use crate::error::{Result, invalid};
use crate::interrupt;

/// The most bytes of a concatenated text: the length of the largest request, by default.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The least number of significant digits, and the least number of digits after the point, in the
/// computation of a quotient of decimals, as in Cassandra's `DecimalType`.
const QUOTIENT_DIGITS_MIN: i64 = 32;
/// The greatest number of digits after the point in the computation of a quotient of decimals, as
/// in Cassandra's `DecimalType`.
const QUOTIENT_SCALE_MAX: i64 = 1000;

/// Returns the function that computes an operator for operands of two types; `None` if the operator
/// is not defined for them.
pub fn operation(operator: Operator, left: &CqlType, right: &CqlType) -> Option<Function> {
    use CqlType::{Ascii, Date, Text, Timestamp};
    let symbol = operator.symbol();
    let name = format!("system._{}", name(operator));
    let args = [left.clone(), right.clone()];
    if let Some(returns) = number_type(left, right) {
        let (types, of) = (args.clone(), returns.clone());
        return Some(Function::new(name, args, returns, move |args, _| {
            let Some([left, right]) = operands(args) else {
                return Ok(None);
            };
            let (left, right) = (read(&types[0], &of, left), read(&types[1], &of, right));
            let (Some(left), Some(right)) = (left, right) else {
                return Ok(None);
            };
            // Charged before: the operation itself cannot stop halfway.
            interrupt::charge(left.units() + right.units())?;
            match numbers(operator, left, right).map(|number| number.write(&of)) {
                Ok(Some(bytes)) => Ok(Some(bytes)),
                Ok(None) => fails(symbol, &types, "there is no such number"),
                Err(why) => fails(symbol, &types, why),
            }
        }));
    }
    match (operator, left, right) {
        (Operator::Add, Ascii | Text, Ascii | Text) => {
            let returns = match (left, right) {
                (Ascii, Ascii) => Ascii,
                _ => Text,
            };
            let types = args.clone();
            let body = move |args: &[Option<&[u8]>], _| {
                let Some([left, right]) = operands(args) else {
                    return Ok(None);
                };
                if left.len() + right.len() > TEXT_BYTES_MAX {
                    return fails(symbol, &types, "the text is too long");
                }
                Ok(Some([left, right].concat()))
            };
            Some(Function::new(name, args, returns, body))
        }
        (Operator::Add | Operator::Subtract, Timestamp | Date, CqlType::Duration) => {
            let (types, back) = (args.clone(), operator == Operator::Subtract);
            let body = move |args: &[Option<&[u8]>], _| {
                let Some([time, duration]) = operands(args) else {
                    return Ok(None);
                };
                match time_and_duration(&types[0], time, duration, back) {
                    Ok(time) => Ok(Some(time)),
                    Err(why) => fails(symbol, &types, why),
                }
            };
            Some(Function::new(name, args, left.clone(), body))
        }
        _ => None,
    }
}

/// Returns the two operands in the arguments of an operator's function. Returns `None` if one of
/// them is null or empty: the result of the operator is null then, as in Cassandra 4.1. This
/// includes empty texts, which Cassandra 5 concatenates.
fn operands<'a>(args: &[Option<&'a [u8]>]) -> Option<[&'a [u8]; 2]> {
    match args {
        [Some(left), Some(right)] if !left.is_empty() && !right.is_empty() => Some([*left, *right]),
        _ => None,
    }
}

/// Returns the function that negates a number of this type.
pub fn negation(ty: &CqlType) -> Result<Function> {
    if !Number::is_of(ty) {
        return invalid(format!("the '-' operation is not supported for {ty}"));
    }
    let of = ty.clone();
    let name = "system._negate";
    Ok(Function::new(
        name,
        [ty.clone()],
        ty.clone(),
        move |args, _| {
            let number = args[0].and_then(|bytes| Number::read(&of, bytes));
            let negative = number.map(|number| match number {
                Number::Integer(n) => Number::Integer(n.wrapping_neg()),
                Number::Big(n) => Number::Big(-n),
                Number::Float(n) => Number::Float(-n),
                Number::Decimal(n) => Number::Decimal(-n),
            });
            Ok(negative.and_then(|number| number.write(&of)))
        },
    ))
}

/// Returns the name of the function that computes an operator, as Cassandra spells it in errors.
fn name(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "add",
        Operator::Subtract => "substract",
        Operator::Multiply => "multiply",
        Operator::Divide => "divide",
        Operator::Remainder => "modulo",
    }
}

/// Returns the error of an operation that is defined for the types of its operands, but not for
/// their values.
fn fails<T>(symbol: char, types: &[CqlType; 2], why: impl Display) -> Result<T> {
    let [left, right] = types;
    let what = format!("the operation '{left} {symbol} {right}' failed: {why}");
    Err(failure(&symbol.to_string(), types, what))
}

/// Returns the type of a numeric result: as wide as the wider operand, and with fractions if one of
/// the operands has them. `None` if an operand is no number.
fn number_type(left: &CqlType, right: &CqlType) -> Option<CqlType> {
    // The width in bytes, and whether the type has a point.
    let rank = |ty: &CqlType| match ty {
        CqlType::Tinyint => Some((1, false)),
        CqlType::Smallint => Some((2, false)),
        CqlType::Int => Some((4, false)),
        CqlType::Bigint | CqlType::Counter => Some((8, false)),
        CqlType::Varint => Some((usize::MAX, false)),
        CqlType::Float => Some((4, true)),
        CqlType::Double => Some((8, true)),
        CqlType::Decimal => Some((usize::MAX, true)),
        _ => None,
    };
    let ((left_bytes, left_point), (right_bytes, right_point)) = (rank(left)?, rank(right)?);
    Some(
        match (left_bytes.max(right_bytes), left_point || right_point) {
            (1, false) => CqlType::Tinyint,
            (2, false) => CqlType::Smallint,
            (4, false) => CqlType::Int,
            (8, false) => CqlType::Bigint,
            (_, false) => CqlType::Varint,
            (1..=4, true) => CqlType::Float,
            (8, true) => CqlType::Double,
            (_, true) => CqlType::Decimal,
        },
    )
}

/// An operand, converted to the kind of number in which the result is computed.
enum Operand {
    Integer(i64),
    Big(BigInt),
    Single(f32),
    Double(f64),
    Decimal(BigDecimal),
    /// NaN or an infinite number, which has no value as a decimal: its description in an error
    /// message.
    NotFinite(&'static str),
}

impl Operand {
    /// Returns the approximate microseconds that an operation on this operand takes.
    fn units(&self) -> u64 {
        match self {
            Self::Big(number) => integer_units(number),
            Self::Decimal(number) => decimal_units(number),
            Self::Integer(_) | Self::Single(_) | Self::Double(_) | Self::NotFinite(_) => 0,
        }
    }
}

/// Decodes an operand of type `ty`, and converts it to the type of the result; `None` for a damaged
/// value.
fn read(ty: &CqlType, result: &CqlType, bytes: &[u8]) -> Option<Operand> {
    let number = Number::read(ty, bytes)?;
    Some(match result {
        CqlType::Varint => Operand::Big(number.to_big()?),
        CqlType::Float => Operand::Single(number.to_f64()? as f32),
        CqlType::Double => Operand::Double(number.to_f64()?),
        CqlType::Decimal => match number.to_decimal() {
            Some(decimal) => Operand::Decimal(decimal),
            None if number.to_f64().is_some_and(f64::is_nan) => Operand::NotFinite("A NaN"),
            None => Operand::NotFinite("An infinite number"),
        },
        _ => Operand::Integer(number.to_i64()?),
    })
}

/// Applies an operator to two operands that have the same type. The error is a message for the
/// client.
fn numbers(operator: Operator, left: Operand, right: Operand) -> Result<Number, Cow<'static, str>> {
    match (left, right) {
        // Computed in 64 bits. Cutting the result to its type gives the same bits as computing in
        // that type.
        (Operand::Integer(a), Operand::Integer(b)) => Ok(Number::Integer(match operator {
            Operator::Add => a.wrapping_add(b),
            Operator::Subtract => a.wrapping_sub(b),
            Operator::Multiply => a.wrapping_mul(b),
            Operator::Divide | Operator::Remainder if b == 0 => return Err("/ by zero".into()),
            Operator::Divide => a.wrapping_div(b),
            Operator::Remainder => a.wrapping_rem(b),
        })),
        (Operand::Single(a), Operand::Single(b)) => {
            Ok(Number::Float(f64::from(computed(operator, a, b))))
        }
        (Operand::Double(a), Operand::Double(b)) => Ok(Number::Float(computed(operator, a, b))),
        (Operand::Big(a), Operand::Big(b)) => {
            check_integer(&a)?;
            check_integer(&b)?;
            check_divisor(operator, b.is_zero())?;
            let result = computed(operator, a, b);
            check_integer(&result)?;
            Ok(Number::Big(result))
        }
        (Operand::Decimal(a), Operand::Decimal(b)) => {
            check_decimal(&a)?;
            check_decimal(&b)?;
            check_divisor(operator, b.is_zero())?;
            let result = decimals(operator, a, b);
            check_decimal(&result)?;
            Ok(Number::Decimal(result))
        }
        (Operand::NotFinite(what), _) | (_, Operand::NotFinite(what)) => {
            Err(format!("{what} cannot be converted into a decimal").into())
        }
        _ => unreachable!("both are of the result's type"),
    }
}

/// Applies an operator by the arithmetic of the Rust type `N`.
fn computed<N>(operator: Operator, a: N, b: N) -> N
where
    N: Add<Output = N> + Sub<Output = N> + Mul<Output = N> + Div<Output = N> + Rem<Output = N>,
{
    match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::Remainder => a % b,
    }
}

/// Rejects a division by zero, which would make big numbers panic.
fn check_divisor(operator: Operator, is_zero: bool) -> Result<(), &'static str> {
    match operator {
        Operator::Divide | Operator::Remainder if is_zero => Err("BigInteger divide by zero"),
        _ => Ok(()),
    }
}

/// Applies an operator to two decimals. The caller has checked their sizes, and that no divisor is
/// zero. The result has the scale that Java's `BigDecimal` gives it. The operators of the crate
/// `bigdecimal` drop zeros for some operands: 1.00 * 2.5 is 2.5 there, and 5 - 0.00 is 5.
fn decimals(operator: Operator, left: BigDecimal, right: BigDecimal) -> BigDecimal {
    if operator == Operator::Divide {
        return quotient(&left, &right);
    }
    let (a, a_scale) = left.into_bigint_and_exponent();
    let (b, b_scale) = right.into_bigint_and_exponent();
    if operator == Operator::Multiply {
        return BigDecimal::new(a * b, a_scale + b_scale);
    }
    let scale = a_scale.max(b_scale);
    let a = a * power_of_ten(scale.abs_diff(a_scale));
    let b = b * power_of_ten(scale.abs_diff(b_scale));
    if operator != Operator::Remainder {
        return BigDecimal::new(computed(operator, a, b), scale);
    }
    // Java subtracts the product of the quotient and the divisor. If the divisor has more places
    // than the dividend, Java moves zeros at the end of the quotient into its scale. So the product
    // has fewer places than the divisor, and the remainder has too: 50 % 2.50 is 0.0.
    let unused = match scale.abs_diff(a_scale) {
        0 => 0,
        places => places.min(trailing_zeros(&(&a / &b))),
    };
    BigDecimal::new((a % b) / power_of_ten(unused), scale - unused as i64)
}

fn power_of_ten(exponent: u64) -> BigInt {
    BigInt::from(10).pow(exponent as u32)
}

/// Returns the number of zeros at the end of an integer in decimal. For 0 it is the greatest
/// number, because every power of ten divides 0.
fn trailing_zeros(number: &BigInt) -> u64 {
    if number.is_zero() {
        return u64::MAX;
    }
    let digits = number.to_string();
    (digits.len() - digits.trim_end_matches('0').len()) as u64
}

/// Divides two decimals: rounds half up, and removes trailing zeros.
fn quotient(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let ((a, a_scale), (b, b_scale)) = (
        left.as_bigint_and_exponent(),
        right.as_bigint_and_exponent(),
    );
    let digits = |number: &BigDecimal| number.digits() as i64;
    let first = (digits(left) - a_scale) - (digits(right) - b_scale);
    let scale = (QUOTIENT_DIGITS_MIN - first)
        .max(a_scale)
        .max(b_scale)
        .clamp(QUOTIENT_DIGITS_MIN, QUOTIENT_SCALE_MAX);
    let shift = scale + b_scale - a_scale;
    let power = power_of_ten(shift.unsigned_abs());
    let (a, b) = if shift >= 0 {
        (a * power, b)
    } else {
        (a, b * power)
    };
    let (mut result, rest) = (&a / &b, &a % &b);
    if rest.magnitude() * 2_u32 >= *b.magnitude() {
        let is_negative = (a.sign() == Sign::Minus) != (b.sign() == Sign::Minus);
        result += if is_negative { -1 } else { 1 };
    }
    BigDecimal::new(result, scale).normalized()
}

/// Adds a duration to a `timestamp` or `date`, or subtracts the duration if `back`.
fn time_and_duration(
    ty: &CqlType,
    time: &[u8],
    duration: &[u8],
    back: bool,
) -> Result<Vec<u8>, String> {
    let out_of_range = || "the time is out of range".to_owned();
    let Duration {
        months,
        days,
        nanos,
    } = Duration::from_bytes(duration).ok_or("there is no such duration")?;
    let is_date = *ty == CqlType::Date;
    let (is_precise, precision) = if is_date {
        (nanos == 0, "day")
    } else {
        (nanos % 1_000_000 == 0, "millisecond")
    };
    if !is_precise {
        let duration = printed::text(&CqlType::Duration, duration).unwrap_or_default();
        return Err(format!(
            "The duration must have a {precision} precision. Was: {duration}"
        ));
    }
    let sign = if back { -1 } else { 1 };
    let moved = |day: i64| add_months(day, sign * i64::from(months)) + sign * i64::from(days);
    if is_date {
        let date = time.try_into().map(u32::from_be_bytes);
        let date = date.map_err(|_| out_of_range())?;
        let date = moved(i64::from(date) - DATE_EPOCH) + DATE_EPOCH;
        let date = u32::try_from(date).map_err(|_| out_of_range())?;
        return Ok(date.to_be_bytes().to_vec());
    }
    let ms = time.try_into().map(i64::from_be_bytes);
    let ms = ms.map_err(|_| out_of_range())?;
    let day = moved(ms.div_euclid(MS_PER_DAY));
    let ms = i128::from(day) * i128::from(MS_PER_DAY)
        + i128::from(ms.rem_euclid(MS_PER_DAY))
        + i128::from(sign) * i128::from(nanos / 1_000_000);
    let ms = i64::try_from(ms).map_err(|_| out_of_range())?;
    Ok(ms.to_be_bytes().to_vec())
}
