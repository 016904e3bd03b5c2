//! The values of relations: their evaluation, with Cassandra's errors for nulls and unset values.

use std::borrow::Cow;

use ebb_model::types::elements;

use super::relations::{InTuples, Tuple};
use crate::analyse::markers::Bound;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, invalid, of_type};
use crate::interrupt;

/// The purpose of a relation's values, on which the words of Cassandra's errors for null and unset
/// values depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The value is compared with a key column by `=`.
    Equal,
    /// The values are compared with a key column by IN.
    In,
    /// The value is an end of a range of keys, with `<`, `<=`, `>` or `>=`.
    Slice,
    /// The value is compared with each row that is read.
    Filter,
}

/// The columns of a relation, and the purpose of its values. Both determine Cassandra's errors when
/// the values are evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Related<'a> {
    /// The names of the columns, at least one.
    pub names: &'a [&'a str],
    pub role: Role,
}

impl Related<'_> {
    /// Returns the bytes of `value`, which belongs to the column `names[at]`.
    ///
    /// # Errors
    /// Cassandra's error if the value is null or unset.
    pub fn value<'v>(&self, at: usize, value: Evaluated<'v>) -> Result<Cow<'v, [u8]>> {
        match value {
            Evaluated::Value(bytes) => Ok(bytes),
            Evaluated::Null => self.null(at),
            Evaluated::Unset if self.names.len() > 1 => {
                invalid(format!("Invalid unset value for tuple field number {at}"))
            }
            Evaluated::Unset => {
                let is_filter = self.role == Role::Filter;
                let fault = if is_filter { "Unsupported" } else { "Invalid" };
                invalid(format!("{fault} unset value for column {}", self.names[at]))
            }
        }
    }

    /// Returns Cassandra's error for a null as the value of the column `names[at]`.
    fn null<T>(&self, at: usize) -> Result<T> {
        let column = self.names[at];
        let is_tuple = self.names.len() > 1;
        invalid(match self.role {
            Role::Filter => format!("Unsupported null value for column {column}"),
            Role::Equal if is_tuple => format!("Invalid null value for column {column}"),
            Role::In if is_tuple => {
                let columns = self.names.join(", ");
                format!("Invalid null value in condition for columns: [{columns}]")
            }
            _ => format!("Invalid null value in condition for column {column}"),
        })
    }

    /// Evaluates `tuple`, and returns one value for each column.
    ///
    /// # Errors
    /// The errors of [`Term::evaluate`], and Cassandra's errors for a value that is null or unset and
    /// for a bound tuple that has more or fewer values than there are columns.
    pub fn tuple<'v>(&self, tuple: &'v Tuple, bound: &Bound<'v>) -> Result<Vec<Cow<'v, [u8]>>> {
        match tuple {
            Tuple::Terms(terms) => {
                let one = |(at, term): (usize, &'v Term)| self.value(at, term.evaluate(bound)?);
                terms.iter().enumerate().map(one).collect()
            }
            Tuple::Whole(term) => match term.evaluate_columns(self.names.len(), bound)? {
                Evaluated::Value(bytes) => self.split(&bytes),
                Evaluated::Null => self.null(0),
                Evaluated::Unset => {
                    let columns = self.names.join(",");
                    invalid(format!("Invalid unset value for tuple ({columns})"))
                }
            },
        }
    }

    /// Evaluates the values of IN. Each element of the result has one value for each column.
    ///
    /// # Errors
    /// The errors of [`tuple`](Self::tuple), Cassandra's error for a bound list that is null or
    /// unset, or the timeout of the statement.
    pub fn tuples<'v>(
        &self,
        values: &'v InTuples,
        bound: &Bound<'v>,
    ) -> Result<Vec<Vec<Cow<'v, [u8]>>>> {
        let (list, is_of_tuples) = match values {
            InTuples::List(tuples) => {
                let one = |tuple: &'v Tuple| {
                    interrupt::charge(1)?;
                    self.tuple(tuple, bound)
                };
                return tuples.iter().map(one).collect();
            }
            InTuples::Whole { list, tuples } => (list.evaluate(bound)?, *tuples),
        };
        let columns = self.names.join(",");
        let list = match list {
            Evaluated::Value(bytes) => bytes,
            Evaluated::Null if is_of_tuples => {
                return invalid("Invalid null value for IN restriction");
            }
            Evaluated::Null => return invalid(format!("Invalid null value for column {columns}")),
            Evaluated::Unset if is_of_tuples => {
                return invalid(format!("Invalid unset value for in({columns})"));
            }
            Evaluated::Unset => {
                return invalid(format!("Invalid unset value for column {columns}"));
            }
        };
        let one = |element: Result<Option<&[u8]>, _>| {
            let Some(element) = element.map_err(of_type)? else {
                return self.null(0);
            };
            if is_of_tuples {
                self.split(element)
            } else {
                Ok(vec![Cow::Owned(element.to_vec())])
            }
        };
        let elements = elements::elements(&list).map_err(of_type)?;
        elements.map(one).collect()
    }

    /// Splits a bound tuple into the values of the columns.
    ///
    /// # Errors
    /// Cassandra's error if a value is null, or if there are more or fewer values than columns.
    fn split<'v>(&self, bytes: &[u8]) -> Result<Vec<Cow<'v, [u8]>>> {
        let columns = self.names.len();
        let mut values: Vec<Cow<'v, [u8]>> = Vec::with_capacity(columns);
        for (at, value) in elements::components(bytes).enumerate() {
            match value.map_err(of_type)? {
                Some(value) => values.push(Cow::Owned(value.to_vec())),
                None => return self.null(at.min(columns - 1)),
            }
        }
        if values.len() != columns {
            return invalid(format!(
                "Expected {columns} elements in value tuple, but got {}",
                values.len()
            ));
        }
        Ok(values)
    }
}
