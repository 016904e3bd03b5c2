//! The partitions that a statement selects.

use std::borrow::Cow;
use std::ops::Bound as End;

use ebb_cql::syntax::ast::Operator;
use ebb_model::key::{ByteRange, PartitionKey, Token, token_range};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::sort_once;

use super::predicate::Predicate;
use super::relations::{InTuples, Parsed, Restriction, RestrictionKind, TokenRestriction, Tuple};
use super::values::{Related, Role};
use super::{Size, place};
use crate::analyse::markers::Bound;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, invalid, of_key};
use crate::interrupt;

#[derive(Debug, Default)]
pub enum PartitionRestrictions {
    #[default]
    All,
    /// Partitions by key: the permitted values of each column of the partition key, and token
    /// relations that filter the keys.
    Keys(Vec<OneOf>, Vec<TokenRestriction>),
    Tokens(Vec<TokenRestriction>),
}

#[derive(Debug)]
pub enum OneOf {
    Equal(Term),
    In(InTuples),
}

/// The selected partitions, after values are bound.
#[derive(Debug)]
pub enum Partitions {
    /// The distinct keys of the partitions, sorted by the values of the key columns.
    Keys(Vec<PartitionKey>),
    /// All partitions in a range of keys of the storage engine.
    Range(ByteRange),
}

impl PartitionRestrictions {
    pub(super) fn new(
        schema: &TableSchema,
        parsed: &mut Parsed,
        predicates: &mut Vec<Predicate>,
    ) -> Result<Self> {
        let keys = schema.columns_of(ColumnKind::PartitionKey);
        let by_column = keys.iter().map(|column| parsed.take(place(schema, column)));
        let by_column: Vec<Vec<Restriction>> = by_column.collect();
        let by_key = |restrictions: &Vec<Restriction>| {
            matches!(
                &restrictions[..],
                [Restriction {
                    kind: RestrictionKind::Equal(_) | RestrictionKind::In(_),
                    ..
                }]
            )
        };
        let tokens = std::mem::take(&mut parsed.tokens);
        if by_column.iter().all(by_key) {
            let one = |restrictions: Vec<Restriction>| match restrictions
                .into_iter()
                .next()
                .map(|restriction| restriction.kind)
            {
                Some(RestrictionKind::Equal(Tuple::Terms(mut terms))) => {
                    OneOf::Equal(terms.remove(0))
                }
                Some(RestrictionKind::In(values)) => OneOf::In(values),
                _ => unreachable!("only these are by key"),
            };
            return Ok(Self::Keys(by_column.into_iter().map(one).collect(), tokens));
        }
        predicates.extend(by_column.into_iter().flatten().map(Predicate::of));
        if tokens.is_empty() {
            return Ok(Self::All);
        }
        Ok(Self::Tokens(tokens))
    }

    /// Returns whether the statement names the partitions by their keys.
    pub fn is_by_key(&self) -> bool {
        matches!(self, Self::Keys(..))
    }

    pub fn has_in(&self) -> bool {
        let Self::Keys(columns, _) = self else {
            return false;
        };
        columns.iter().any(|column| matches!(column, OneOf::In(_)))
    }

    /// Returns the index of the marker that provides the column of the partition key at this
    /// position, if a marker does.
    pub fn marker(&self, position: usize) -> Option<u16> {
        match self {
            Self::Keys(columns, _) => match columns.get(position)? {
                OneOf::Equal(term) => term.marker(),
                OneOf::In(_) => None,
            },
            _ => None,
        }
    }

    /// Returns the values to which `=` or IN restricts the first column of the partition key.
    /// `None` without such a relation.
    pub fn first_values<'v>(
        &'v self,
        name: &str,
        bound: &Bound<'v>,
    ) -> Result<Option<Vec<Cow<'v, [u8]>>>> {
        let Self::Keys(columns, _) = self else {
            return Ok(None);
        };
        let values = match &columns[0] {
            OneOf::Equal(term) => vec![term.evaluate(bound)?.condition(name)?],
            OneOf::In(values) => in_values(values, name, bound)?,
        };
        Ok(Some(values))
    }

    /// Computes the partitions from the bound values.
    ///
    /// # Errors
    /// Cassandra's errors: a value is null or unset, or a key is empty or too long. Also an error if
    /// there are too many keys, or the timeout of the statement.
    pub fn partitions(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Partitions> {
        match self {
            Self::All => Ok(Partitions::Range(token_range(
                End::Unbounded,
                End::Unbounded,
            ))),
            Self::Tokens(tokens) => token_bounds(tokens, bound).map(Partitions::Range),
            Self::Keys(columns, tokens) => {
                let mut keys = keys(schema, columns, bound)?;
                if !tokens.is_empty() {
                    let range = token_bounds(tokens, bound)?;
                    keys.retain(|key| range.contains(&key.header_key()));
                }
                Ok(Partitions::Keys(keys))
            }
        }
    }
}

fn token_bounds(tokens: &[TokenRestriction], bound: &Bound<'_>) -> Result<ByteRange> {
    let (mut from, mut to) = (End::Unbounded, End::Unbounded);
    for restriction in tokens {
        let value = match restriction.value.evaluate(bound)? {
            Evaluated::Value(value) => value,
            Evaluated::Null => return invalid("Invalid null token value"),
            Evaluated::Unset => {
                return invalid("Invalid unset value for column partition key token");
            }
        };
        let Ok(bytes) = <[u8; 8]>::try_from(&value[..]) else {
            return invalid("Invalid null token value");
        };
        let token = Token(i64::from_be_bytes(bytes));
        match restriction.operator {
            Operator::Greater => from = End::Excluded(token),
            Operator::GreaterOrEqual => from = End::Included(token),
            // As the upper end, the least token means the end of the ring.
            Operator::Less | Operator::LessOrEqual if token == Token::MIN => to = End::Unbounded,
            Operator::Less => to = End::Excluded(token),
            Operator::LessOrEqual => to = End::Included(token),
            _ => (from, to) = (End::Included(token), End::Included(token)),
        }
    }
    Ok(token_range(from, to))
}

fn keys(schema: &TableSchema, columns: &[OneOf], bound: &Bound<'_>) -> Result<Vec<PartitionKey>> {
    let named = schema.columns_of(ColumnKind::PartitionKey);
    let layout = schema.layout();
    // The one key of a point read needs no product.
    if let [OneOf::Equal(term)] = columns {
        let value = term.evaluate(bound)?.condition(&named[0].name)?;
        return Ok(vec![layout.partition_key(&[&value]).map_err(of_key)?]);
    }
    let mut products: Vec<Vec<Cow<'_, [u8]>>> = vec![Vec::new()];
    for (one_of, column) in columns.iter().zip(named) {
        let mut values = match one_of {
            OneOf::Equal(term) => vec![term.evaluate(bound)?.condition(&column.name)?],
            OneOf::In(values) => in_values(values, &column.name, bound)?,
        };
        values = sort_once(
            &column.ty,
            values,
            |value| value,
            &mut interrupt::charge_bytes,
        )?;
        products = product(&products, &values)?;
    }
    let key = |values: &Vec<Cow<'_, [u8]>>| {
        let values: Vec<&[u8]> = values.iter().map(|value| &**value).collect();
        layout.partition_key(&values).map_err(of_key)
    };
    products.iter().map(key).collect()
}

/// Appends each of `values` to each list in `products`, and returns all the resulting lists.
fn product<'v>(
    products: &[Vec<Cow<'v, [u8]>>],
    values: &[Cow<'v, [u8]>],
) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
    let each = values.iter().map(std::slice::from_ref);
    Size::of(products.iter().map(Vec::as_slice)).check_product(Size::of(each))?;
    let mut next = Vec::with_capacity(products.len() * values.len());
    for product in products {
        for value in values {
            interrupt::charge_bytes(value.len())?;
            let mut product = product.clone();
            product.push(value.clone());
            next.push(product);
        }
    }
    Ok(next)
}

/// Returns the values of IN for one column.
pub(super) fn in_values<'v>(
    values: &'v InTuples,
    column: &str,
    bound: &Bound<'v>,
) -> Result<Vec<Cow<'v, [u8]>>> {
    let related = Related {
        names: &[column],
        role: Role::In,
    };
    let tuples = related.tuples(values, bound)?;
    let one = |mut tuple: Vec<Cow<'v, [u8]>>| tuple.swap_remove(0);
    Ok(tuples.into_iter().map(one).collect())
}
