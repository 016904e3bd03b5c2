//! The functions of groups of rows: count, min, max, sum, avg.

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use ebb_catalog::types::CqlType;
use ebb_cql::syntax::ast::QualifiedName;

use super::cast::Number;
use crate::error::{Result, invalid};

/// An aggregate over values of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    kind: Kind,
    /// Of its argument.
    ty: CqlType,
    returns: CqlType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Rows; with an argument, those where it is not null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

/// What an aggregate has seen of a group.
#[derive(Debug, Default, Clone)]
pub struct State {
    count: i64,
    /// The least or greatest value.
    best: Option<Vec<u8>>,
    integer: i128,
    float: f64,
    big: BigInt,
    decimal: BigDecimal,
}

impl Aggregate {
    /// `count(*)`.
    pub fn count_rows() -> Self {
        Self {
            kind: Kind::Count,
            ty: CqlType::Blob,
            returns: CqlType::Bigint,
        }
    }

    /// The aggregate of a name over values of a type, where it is one.
    ///
    /// # Errors
    /// In Cassandra's words, where it does not take such values.
    pub fn named(name: &QualifiedName, types: &[Option<CqlType>]) -> Result<Option<Self>> {
        if name.keyspace.as_ref().is_some_and(|k| *k != "system") {
            return Ok(None);
        }
        let kind = match name.name.as_str() {
            "count" => Kind::Count,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "sum" => Kind::Sum,
            "avg" => Kind::Avg,
            _ => return Ok(None),
        };
        let [Some(ty)] = types else {
            return invalid(format!(
                "Invalid number of arguments in call to function system.{}: 1 required but {} \
                 provided",
                name.name.as_str(),
                types.len()
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

    /// The type of what it gives.
    pub fn returns(&self) -> &CqlType {
        &self.returns
    }

    /// Takes a row of the group; `value` is that of the argument, where there is one.
    pub fn add(&self, state: &mut State, value: Option<&[u8]>) {
        let Some(value) = value else {
            return;
        };
        match self.kind {
            Kind::Count => state.count += 1,
            Kind::Min | Kind::Max => {
                let wanted = match self.kind {
                    Kind::Min => Ordering::Less,
                    _ => Ordering::Greater,
                };
                let is_better = |best: &Vec<u8>| self.ty.compare(value, best) == wanted;
                if state.best.as_ref().is_none_or(is_better) {
                    state.best = Some(value.to_vec());
                }
            }
            Kind::Sum | Kind::Avg => {
                let Some(number) = Number::read(&self.ty, value) else {
                    return;
                };
                state.count += 1;
                match number {
                    Number::Integer(n) => state.integer += i128::from(n),
                    Number::Float(n) => state.float += n,
                    Number::Big(n) => state.big += n,
                    Number::Decimal(n) => state.decimal += n,
                }
            }
        }
    }

    /// Takes a row that counts as such.
    pub fn add_row(&self, state: &mut State) {
        state.count += 1;
    }

    /// What it gives; sums of integers wrap as Cassandra's do.
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
            CqlType::Decimal if divisor == 1 => Number::Decimal(state.decimal.clone()),
            // Cassandra divides at the scale of the sum and rounds half to even.
            CqlType::Decimal => {
                let scale = state.decimal.as_bigint_and_exponent().1;
                let mode = bigdecimal::RoundingMode::HalfEven;
                let quotient = &state.decimal / BigDecimal::from(divisor);
                Number::Decimal(quotient.with_scale_round(scale, mode))
            }
            _ => Number::Integer((state.integer / i128::from(divisor)) as i64),
        };
        number.write(&self.ty)
    }
}
