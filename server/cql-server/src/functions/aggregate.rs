//! Aggregates over groups of rows: count, min, max, sum, avg.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};
use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::QualifiedName;
use ebb_model::types::CqlType;

use super::cast::Number;
use super::number_size::{
    Checked, check_decimal, check_integer, decimal_units, integer_units, scale_units,
};
use super::{failure, wrong_count};
use crate::error::{Result, invalid};
use crate::interrupt;

/// An aggregate function for arguments of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    kind: Kind,
    ty: CqlType,
    returns: CqlType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The number of rows or, with an argument, of values other than null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl Kind {
    fn named(name: &QualifiedName) -> Option<Self> {
        if name.keyspace.as_ref().is_some_and(|k| *k != "system") {
            return None;
        }
        match name.name.as_str() {
            "count" => Some(Self::Count),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            "sum" => Some(Self::Sum),
            "avg" => Some(Self::Avg),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::Sum => "sum",
            Self::Avg => "avg",
        }
    }
}

/// The state of an aggregate over the rows of a group so far.
#[derive(Debug, Default, Clone)]
pub struct State {
    count: i64,
    best: Option<Vec<u8>>,
    integer: i128,
    float: FloatSum,
    big: BigInt,
    /// The sum or the average of decimals. For an average of floating-point numbers: their sum, if
    /// `float` has overflowed.
    decimal: Option<DecimalTotal>,
}

impl State {
    pub fn bytes(&self) -> usize {
        let decimal = self.decimal.as_ref();
        let bits = self.big.bits() + decimal.map_or(0, |total| total.unscaled.bits());
        self.best.as_ref().map_or(0, Vec::len) + (bits / 8) as usize
    }
}

/// A sum of floating-point numbers by Kahan's algorithm, step by step as in Cassandra's
/// `FloatSumAggregate`, so that the result has the same bits.
#[derive(Debug, Default, Clone, Copy)]
struct FloatSum {
    sum: f64,
    /// The rounding error of the last addition.
    compensation: f64,
    /// The sum without compensation.
    simple: f64,
}

impl FloatSum {
    fn add(&mut self, number: f64) {
        self.simple += number;
        let compensated = number - self.compensation;
        let rounded = self.sum + compensated;
        self.compensation = (rounded - self.sum) - compensated;
        self.sum = rounded;
    }

    fn total(&self) -> f64 {
        // Kahan's algorithm subtracts the compensation. Cassandra adds it.
        let total = self.sum + self.compensation;
        // An infinite number makes the compensation NaN.
        if total.is_nan() && self.simple.is_infinite() {
            self.simple
        } else {
            total
        }
    }
}

/// A sum or an average of decimals. Its scale is the largest scale of its numbers. The default is 0
/// with the scale 0, because Cassandra begins with `BigDecimal.ZERO` for decimals: the sum of 1e5
/// and 2e5 is 300000, not 3e5.
#[derive(Debug, Default, Clone)]
struct DecimalTotal {
    unscaled: BigInt,
    scale: i64,
}

impl DecimalTotal {
    fn of(number: BigDecimal) -> Self {
        let (unscaled, scale) = number.into_bigint_and_exponent();
        Self { unscaled, scale }
    }

    /// Adds a number to the sum. The size of the sum has the same limit as the size of an operand
    /// of arithmetic.
    fn add(&mut self, number: BigDecimal) -> Checked {
        let number = self.align(number)?;
        self.unscaled += number;
        check_integer(&self.unscaled)
    }

    /// Adds a number to the average, so that it becomes the average of `count` numbers. As in
    /// Cassandra, the average moves by a rounded part of its difference from the number, so it
    /// depends on the order of the numbers. The size of the average has the same limit as the size
    /// of a sum.
    fn average(&mut self, number: BigDecimal, count: i64) -> Checked {
        let difference = self.align(number)? - &self.unscaled;
        self.unscaled += divided(&difference, count);
        check_integer(&self.unscaled)
    }

    /// Gives the total the scale of a number, if that is larger. Returns the number's digits at the
    /// scale of the total.
    fn align(&mut self, number: BigDecimal) -> Result<BigInt, &'static str> {
        check_decimal(&number)?;
        let power = |places: u64| BigInt::from(10).pow(places as u32);
        let (unscaled, scale) = number.into_bigint_and_exponent();
        let places = scale.abs_diff(self.scale);
        Ok(match scale.cmp(&self.scale) {
            Ordering::Less => unscaled * power(places),
            Ordering::Equal => unscaled,
            Ordering::Greater => {
                self.unscaled *= power(places);
                self.scale = scale;
                unscaled
            }
        })
    }

    /// Divides the sum. The quotient has the scale of the sum.
    fn divided_by(&self, divisor: i64) -> BigDecimal {
        BigDecimal::new(divided(&self.unscaled, divisor), self.scale)
    }
}

/// Divides an integer by a positive one. The quotient is rounded half to even.
fn divided(dividend: &BigInt, divisor: i64) -> BigInt {
    let divisor = BigInt::from(divisor);
    let (quotient, rest) = (dividend / &divisor, dividend % &divisor);
    let rounds_away = match (rest.magnitude() * 2_u32).cmp(divisor.magnitude()) {
        Ordering::Less => false,
        Ordering::Equal => quotient.magnitude().bit(0),
        Ordering::Greater => true,
    };
    let away: i32 = match (rounds_away, dividend.sign()) {
        (false, _) => 0,
        (true, Sign::Minus) => -1,
        (true, _) => 1,
    };
    quotient + away
}

impl Aggregate {
    pub fn count_rows() -> Self {
        Self {
            kind: Kind::Count,
            ty: CqlType::Blob,
            returns: CqlType::Bigint,
        }
    }

    /// Returns whether an aggregate function has this name.
    pub fn has_name(name: &QualifiedName) -> bool {
        Kind::named(name).is_some()
    }

    /// Returns the aggregate function with this name and argument types; `None` if no aggregate has
    /// this name. A type is `None` if it cannot be inferred, as that of a bind marker.
    pub fn named(name: &QualifiedName, types: &[Option<CqlType>]) -> Result<Option<Self>> {
        let Some(kind) = Kind::named(name) else {
            return Ok(None);
        };
        let [ty] = types else {
            let function = format!("system.{}", name.name.as_str());
            return wrong_count(&function, 1, types.len());
        };
        let Some(ty) = ty else {
            return invalid(format!(
                "Ambiguous call to function {}: use type casts to disambiguate",
                name.name.as_str()
            ));
        };
        let is_number = Number::is_of(ty);
        if matches!(kind, Kind::Sum | Kind::Avg) && !is_number {
            return invalid(format!(
                "Invalid call to function {}, none of its type signatures match",
                name.name.as_str()
            ));
        }
        let returns = match kind {
            Kind::Count => CqlType::Bigint,
            _ => ty.clone(),
        };
        let ty = ty.clone();
        Ok(Some(Self { kind, ty, returns }))
    }

    /// Returns the name without the keyspace, for example `max`.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    pub fn returns(&self) -> &CqlType {
        &self.returns
    }

    /// Adds a row of the group to the aggregate. `value` is the value of the aggregate's argument in
    /// this row; a null adds nothing.
    ///
    /// # Errors
    /// If a decimal is too large, if the number is not finite after an average of floating-point
    /// numbers has overflowed, or if the statement's time is over.
    pub fn add(&self, state: &mut State, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value else {
            return Ok(());
        };
        interrupt::charge_bytes(value.len())?;
        match self.kind {
            Kind::Count => state.count += 1,
            Kind::Min | Kind::Max => {
                let wanted = match self.kind {
                    Kind::Min => Ordering::Less,
                    _ => Ordering::Greater,
                };
                let is_better = match &state.best {
                    None => true,
                    Some(best) => {
                        let charge = &mut interrupt::charge_bytes;
                        self.ty.try_compare(value, best, charge)? == wanted
                    }
                };
                if is_better {
                    state.best = Some(value.to_vec());
                }
            }
            Kind::Sum | Kind::Avg => {
                let Some(number) = Number::read(&self.ty, value) else {
                    return Ok(());
                };
                state.count += 1;
                match number {
                    Number::Integer(n) => state.integer += i128::from(n),
                    Number::Float(n) => self.add_float(state, n)?,
                    Number::Big(n) => state.big += n,
                    Number::Decimal(n) => self.add_decimal(state, n)?,
                }
            }
        }
        Ok(())
    }

    /// Adds a floating-point number. From the first overflow on, the numbers of an average are added
    /// as decimals. Like Cassandra, this fails for a later number that is not finite.
    fn add_float(&self, state: &mut State, number: f64) -> Result<()> {
        let decimal = |n: f64| {
            let n = Number::Float(n);
            n.to_decimal().ok_or_else(|| self.failed(n.refusal()))
        };
        if state.decimal.is_none() {
            let before = state.float.sum;
            state.float.add(number);
            let overflows = state.float.sum.is_infinite() && number.is_finite();
            if self.kind != Kind::Avg || !overflows {
                return Ok(());
            }
            state.decimal = Some(DecimalTotal::of(decimal(before)?));
        }
        self.add_decimal(state, decimal(number)?)
    }

    fn add_decimal(&self, state: &mut State, number: BigDecimal) -> Result<()> {
        let total = state.decimal.get_or_insert_default();
        // A step of an average divides all its digits, however short the number is.
        let total_units = integer_units(&total.unscaled) + scale_units(total.scale);
        interrupt::charge(decimal_units(&number) + total_units)?;
        let added = if self.kind == Kind::Avg && self.ty == CqlType::Decimal {
            total.average(number, state.count)
        } else {
            total.add(number)
        };
        added.map_err(|why| self.failed(why))
    }

    fn failed(&self, why: &str) -> ErrorResponse {
        let (name, ty) = (self.kind.name(), &self.ty);
        let what = format!("the function '{name}({ty})' failed: {why}");
        failure(name, std::slice::from_ref(ty), what)
    }

    /// Adds a row of the group to `count(*)`.
    pub fn add_row(&self, state: &mut State) {
        state.count += 1;
    }

    /// Returns the result of the aggregate: null for the minimum or maximum of no values, 0 for their
    /// sum or average. Sums of integers wrap on overflow, as in Cassandra.
    pub fn finish(&self, state: &State) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Count => Some(state.count.to_be_bytes().to_vec()),
            Kind::Min | Kind::Max => state.best.clone(),
            Kind::Sum => self.number(state, 1),
            Kind::Avg => self.number(state, state.count.max(1)),
        }
    }

    fn number(&self, state: &State, divisor: i64) -> Option<Vec<u8>> {
        let number = match self.ty {
            CqlType::Float | CqlType::Double => match &state.decimal {
                Some(sum) => Number::Decimal(sum.divided_by(divisor)),
                None => Number::Float(state.float.total() / divisor as f64),
            },
            CqlType::Varint => Number::Big(&state.big / divisor),
            CqlType::Decimal => {
                // For `avg` this is the average already, so nothing is divided.
                let total = state.decimal.clone().unwrap_or_default();
                Number::Decimal(BigDecimal::new(total.unscaled, total.scale))
            }
            _ => Number::Integer((state.integer / i128::from(divisor)) as i64),
        };
        number.write(&self.ty)
    }
}
