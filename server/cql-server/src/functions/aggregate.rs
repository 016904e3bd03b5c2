//! Aggregates over groups of rows: count, min, max, sum, avg.

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};
use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::QualifiedName;
use ebb_model::types::CqlType;

use super::cast::Number;
use super::number_size::{Checked, check_decimal, check_integer, decimal_units, scale_units};
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
    float: f64,
    big: BigInt,
    decimal: DecimalSum,
}

impl State {
    pub fn bytes(&self) -> usize {
        let bits = self.big.bits() + self.decimal.unscaled.bits();
        self.best.as_ref().map_or(0, Vec::len) + (bits / 8) as usize
    }
}

/// A sum of decimals. The scale of the sum is the largest scale of its numbers, and at least 0, as
/// for `BigDecimal.ZERO.add(...)` in Java.
#[derive(Debug, Default, Clone)]
struct DecimalSum {
    unscaled: BigInt,
    scale: i64,
}

impl DecimalSum {
    /// Adds a number to the sum. The size of the sum has the same limit as the size of an operand
    /// of arithmetic.
    fn add(&mut self, number: BigDecimal) -> Checked {
        check_decimal(&number)?;
        let power = |places: u64| BigInt::from(10).pow(places as u32);
        let (unscaled, scale) = number.into_bigint_and_exponent();
        let places = scale.abs_diff(self.scale);
        match scale.cmp(&self.scale) {
            Ordering::Less => self.unscaled += unscaled * power(places),
            Ordering::Equal => self.unscaled += unscaled,
            Ordering::Greater => {
                self.unscaled *= power(places);
                self.unscaled += unscaled;
                self.scale = scale;
            }
        }
        check_integer(&self.unscaled)
    }

    /// Divides the sum as Cassandra does: the quotient has the scale of the sum, and is rounded
    /// half to even.
    fn divided_by(&self, divisor: i64) -> BigDecimal {
        let divisor = BigInt::from(divisor);
        let (quotient, rest) = (&self.unscaled / &divisor, &self.unscaled % &divisor);
        let rounds_away = match (rest.magnitude() * 2_u32).cmp(divisor.magnitude()) {
            Ordering::Less => false,
            Ordering::Equal => quotient.magnitude().bit(0),
            Ordering::Greater => true,
        };
        let away: i32 = match (rounds_away, self.unscaled.sign()) {
            (false, _) => 0,
            (true, Sign::Minus) => -1,
            (true, _) => 1,
        };
        BigDecimal::new(quotient + away, self.scale)
    }
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

    /// Adds a row of the group to the aggregate. `value` is the value of the aggregate's argument
    /// in this row; a null adds nothing.
    ///
    /// # Errors
    /// If a sum becomes too large, or the statement's time is over.
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
                    Number::Float(n) => state.float += n,
                    Number::Big(n) => state.big += n,
                    Number::Decimal(n) => {
                        interrupt::charge(decimal_units(&n) + scale_units(state.decimal.scale))?;
                        (state.decimal.add(n)).map_err(|why| self.failed(why))?;
                    }
                }
            }
        }
        Ok(())
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

    /// Returns the result of the aggregate. Sums of integers wrap on overflow, as in Cassandra.
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
            CqlType::Float | CqlType::Double => Number::Float(state.float / divisor as f64),
            CqlType::Varint => Number::Big(&state.big / divisor),
            CqlType::Decimal => Number::Decimal(state.decimal.divided_by(divisor)),
            _ => Number::Integer((state.integer / i128::from(divisor)) as i64),
        };
        number.write(&self.ty)
    }
}
