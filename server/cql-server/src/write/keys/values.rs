//! Values of key columns, as terms and as bytes.

use std::borrow::Cow;

use ebb_catalog::schema::Column;
use ebb_catalog::types::{CqlType, elements};
use ebb_cql::syntax::ast::{self, InValues};

use crate::analyse::markers::{Bound, Markers, Receiver};
use crate::analyse::term::{self, Term};
use crate::error::{Result, invalid, of_type};

/// A value of a key column.
pub(super) type Value<'v> = Cow<'v, [u8]>;

/// What one key column may be.
#[derive(Debug)]
pub(super) enum ColumnValues {
    /// `c = v`.
    One(String, Term),
    /// `c IN (v, w)`.
    AnyOf(String, Vec<Term>),
    /// `c IN ?`.
    List(String, Term),
}

impl ColumnValues {
    pub(super) fn one(column: &Column, value: &ast::Term, markers: &mut Markers) -> Result<Self> {
        let receiver = Receiver::new(&*column.name, column.ty.clone());
        let term = term::prepare(value, &receiver, markers)?;
        Ok(Self::One(column.name.to_string(), term))
    }

    pub(super) fn any_of(
        column: &Column,
        values: &InValues,
        markers: &mut Markers,
    ) -> Result<Self> {
        let name = column.name.to_string();
        match values {
            InValues::List(terms) => {
                let receiver = Receiver::new(&*column.name, column.ty.clone());
                let prepared = terms.iter().map(|t| term::prepare(t, &receiver, markers));
                Ok(Self::AnyOf(name, prepared.collect::<Result<_>>()?))
            }
            InValues::Marker(marker) => {
                let list = CqlType::list(column.ty.clone()).freeze();
                let receiver = Receiver::new(format!("in({name})"), list);
                let marker = ast::Term::Marker(marker.clone());
                Ok(Self::List(
                    name,
                    term::prepare(&marker, &receiver, markers)?,
                ))
            }
        }
    }

    pub(super) fn marker(&self) -> Option<u16> {
        match self {
            Self::One(_, term) => term.marker(),
            _ => None,
        }
    }

    /// All values, at least one unless the list is empty.
    pub(super) fn evaluate<'v>(&'v self, bound: &Bound<'v>) -> Result<Vec<Value<'v>>> {
        match self {
            Self::One(name, term) => Ok(vec![term.evaluate(bound)?.condition(name)?]),
            Self::AnyOf(name, terms) => {
                let values = terms.iter().map(|t| t.evaluate(bound)?.condition(name));
                values.collect()
            }
            Self::List(name, term) => {
                let list = term.evaluate(bound)?.condition(name)?;
                let mut values = Vec::new();
                for value in elements::elements(&list).map_err(of_type)? {
                    match value.map_err(of_type)? {
                        Some(value) => values.push(Cow::Owned(value.to_vec())),
                        None => {
                            return invalid(format!(
                                "Invalid null value in condition for column {name}"
                            ));
                        }
                    }
                }
                Ok(values)
            }
        }
    }
}

/// Values of several clustering columns.
#[derive(Debug)]
pub(super) enum TupleValues {
    /// `(1, 2)`.
    Each(Vec<(String, Term)>),
    /// `?`: a tuple.
    Tuple(Vec<String>, Term),
}

impl TupleValues {
    /// `columns` are consecutive clustering columns.
    pub(super) fn prepare(
        columns: &[&Column],
        value: &ast::Term,
        markers: &mut Markers,
    ) -> Result<Self> {
        let names = || columns.iter().map(|c| c.name.to_string());
        match value {
            ast::Term::Tuple(items) => {
                if items.len() != columns.len() {
                    return invalid(format!(
                        "Expected {} elements in value tuple, but got {}: {value}",
                        columns.len(),
                        items.len()
                    ));
                }
                let one = |(column, item): (&&Column, &ast::Term)| {
                    let receiver = Receiver::new(&*column.name, column.ty.clone());
                    let term = term::prepare(item, &receiver, markers)?;
                    Ok((column.name.to_string(), term))
                };
                let each = columns.iter().zip(items).map(one);
                Ok(Self::Each(each.collect::<Result<_>>()?))
            }
            _ => {
                let receiver = Receiver::new(
                    format!("({})", names().collect::<Vec<_>>().join(",")),
                    tuple_type(columns),
                );
                let term = term::prepare(value, &receiver, markers)?;
                Ok(Self::Tuple(names().collect(), term))
            }
        }
    }

    /// One value for each column.
    pub(super) fn evaluate<'v>(&'v self, bound: &Bound<'v>) -> Result<Vec<Value<'v>>> {
        match self {
            Self::Each(terms) => {
                let values = terms.iter();
                let values = values.map(|(name, t)| t.evaluate(bound)?.condition(name));
                values.collect()
            }
            Self::Tuple(names, term) => {
                let joined = || format!("({})", names.join(","));
                let tuple = term.evaluate(bound)?.condition(&joined())?;
                split_tuple(names, &tuple)
            }
        }
    }
}

/// The type of a tuple of these columns.
pub(super) fn tuple_type(columns: &[&Column]) -> CqlType {
    CqlType::tuple(columns.iter().map(|c| c.ty.clone()))
}

/// The components of a tuple; each of these columns has one.
pub(super) fn split_tuple<'v>(names: &[String], tuple: &[u8]) -> Result<Vec<Value<'v>>> {
    let mut components = elements::components(tuple);
    let one = |name: &String| match components.next().transpose().map_err(of_type)? {
        Some(Some(value)) => Ok(Cow::Owned(value.to_vec())),
        _ => invalid(format!("Invalid null value for column {name}")),
    };
    names.iter().map(one).collect()
}
