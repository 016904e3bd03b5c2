//! The assignments of UPDATE and the targets of DELETE, checked against the columns' types.

use ebb_cql::protocol::ErrorKind;
use ebb_cql::syntax::ast;
use ebb_model::schema::Column;
use ebb_model::types::{CqlType, UserType};

use super::operation::Operation;
use super::plan::Change;
use crate::analyse::markers::{Markers, Receiver};
use crate::analyse::term::{self, Term};
use crate::error::{Result, invalid};

/// Returns the change that sets a whole column to a value.
pub(super) fn set(column: &Column, value: &ast::Term, markers: &mut Markers) -> Result<Change> {
    let operation = Operation::Set(whole(column, value, markers)?);
    Ok(change(column, operation))
}

/// Returns the change that an assignment of UPDATE makes. Permitted assignments, and the errors for
/// others, are those of Cassandra's `Operation`.
pub(super) fn assign(
    column: &Column,
    assigned: &ast::Change,
    markers: &mut Markers,
) -> Result<Change> {
    let (name, ty) = (&column.name, &column.ty);
    let refusal = |what: &str| -> Result<Change> {
        let text = match assigned {
            ast::Change::Set(value) => format!("{name} = {value}"),
            ast::Change::Add(value) => format!("{name} = {name} + {value}"),
            ast::Change::Subtract(value) => format!("{name} = {name} - {value}"),
            ast::Change::Prepend(value) => format!("{name} = {value} + {name}"),
            ast::Change::Element { key, value } => format!("{name}[{key}] = {value}"),
            ast::Change::Field { field, value } => format!("{name}.{} = {value}", field.as_str()),
        };
        invalid(format!(
            "Invalid operation ({text}) for {what} column {name}"
        ))
    };
    // The order of the arms matters: `c = c + v` means one thing for a counter and another for a
    // collection, and the first reason against it decides the error.
    let operation = match assigned {
        ast::Change::Set(_) if *ty == CqlType::Counter => {
            return invalid(format!(
                "Cannot set the value of counter column {name} (counters can only be \
                 incremented/decremented, not set)"
            ));
        }
        ast::Change::Set(value) => return set(column, value, markers),
        ast::Change::Add(value) | ast::Change::Subtract(value) if *ty == CqlType::Counter => {
            Operation::Count {
                by: whole(column, value, markers)?,
                is_negative: matches!(assigned, ast::Change::Subtract(_)),
            }
        }
        // To Cassandra a user-defined type is a tuple, also in this error, which `-` does not have.
        ast::Change::Add(_) if matches!(ty, CqlType::Tuple(_) | CqlType::Udt { .. }) => {
            return refusal("tuple");
        }
        ast::Change::Add(_) | ast::Change::Subtract(_) if !ty.is_collection() => {
            return refusal("non counter");
        }
        ast::Change::Add(_) | ast::Change::Subtract(_) if !ty.is_multi_cell() => {
            return refusal("frozen collection");
        }
        ast::Change::Add(value) => Operation::Add(match ty {
            CqlType::Map { .. } => or_misfit(whole(column, value, markers), || {
                format!("Value for a map addition has to be a map, but was: '{value}'")
            })?,
            _ => whole(column, value, markers)?,
        }),
        ast::Change::Subtract(value) => match ty {
            CqlType::List { .. } => Operation::RemoveValues(whole(column, value, markers)?),
            // Only keys are subtracted from a map, as a set: `m = m - {k}`.
            CqlType::Map { key, .. } => {
                let keys = CqlType::Set {
                    element: key.clone(),
                    frozen: true,
                };
                let keys = Receiver::new(&**name, keys);
                let keys = or_misfit(term::prepare(value, &keys, markers), || {
                    // Cassandra's spelling.
                    format!("Value for a map substraction has to be a set, but was: '{value}'")
                });
                Operation::RemoveKeys(keys?)
            }
            // Only sets are left. The members to remove are a set of the same type.
            _ => Operation::RemoveKeys(whole(column, value, markers)?),
        },
        ast::Change::Prepend(value) => match ty {
            CqlType::List { frozen: false, .. } => {
                Operation::Prepend(whole(column, value, markers)?)
            }
            CqlType::List { .. } => return refusal("frozen list"),
            _ => return refusal("non list"),
        },
        ast::Change::Element { key, value } => match ty {
            _ if !ty.is_collection() => return refusal("non collection"),
            _ if !ty.is_multi_cell() => return refusal("frozen collection"),
            CqlType::List { element, .. } => Operation::SetIndex {
                index: index(column, key, markers)?,
                value: part("value", column, element, value, markers)?,
            },
            CqlType::Map {
                key: key_type,
                value: value_type,
                ..
            } => Operation::SetKey {
                key: part("key", column, key_type, key, markers)?,
                value: part("value", column, value_type, value, markers)?,
            },
            // Of collections only sets are left, whose elements have neither key nor index.
            _ => return refusal("set"),
        },
        ast::Change::Field { field, value } => match ty {
            CqlType::Udt {
                definition,
                frozen: false,
            } => {
                let (number, ty) = field_of(column, definition, field)?;
                let receiver = Receiver::new(format!("{name}.{}", field.as_str()), ty.clone());
                Operation::SetField {
                    field: number,
                    value: term::prepare(value, &receiver, markers)?,
                }
            }
            CqlType::Udt { .. } => return refusal("frozen UDT"),
            _ => return refusal("non-UDT"),
        },
    };
    Ok(change(column, operation))
}

/// Returns the change that a target of DELETE makes.
pub(super) fn remove(column: &Column, what: &ast::Part, markers: &mut Markers) -> Result<Change> {
    let (name, ty) = (&column.name, &column.ty);
    let operation = match what {
        ast::Part::Whole => Operation::Remove,
        ast::Part::Element(key) => match ty {
            _ if !ty.is_collection() => {
                return invalid(format!(
                    "Invalid deletion operation for non collection column {name}"
                ));
            }
            _ if !ty.is_multi_cell() => {
                return invalid(format!(
                    "Invalid deletion operation for frozen collection column {name}"
                ));
            }
            CqlType::List { .. } => Operation::RemoveIndex(index(column, key, markers)?),
            CqlType::Set { element, .. } => {
                Operation::RemoveKey(part("value", column, element, key, markers)?)
            }
            CqlType::Map { key: ty, .. } => {
                Operation::RemoveKey(part("key", column, ty, key, markers)?)
            }
            _ => unreachable!("a collection is a list, set or map"),
        },
        ast::Part::Field(field) => match ty {
            CqlType::Udt {
                definition,
                frozen: false,
            } => Operation::RemoveField(field_of(column, definition, field)?.0),
            CqlType::Udt { .. } => {
                return invalid(format!(
                    "Frozen UDT column {name} does not support field deletions"
                ));
            }
            _ => {
                return invalid(format!(
                    "Invalid field deletion operation for non-UDT column {name}"
                ));
            }
        },
    };
    Ok(change(column, operation))
}

fn change(column: &Column, operation: Operation) -> Change {
    Change {
        column: column.clone(),
        operation,
    }
}

fn whole(column: &Column, value: &ast::Term, markers: &mut Markers) -> Result<Term> {
    let receiver = Receiver::new(&*column.name, column.ty.clone());
    term::prepare(value, &receiver, markers)
}

/// Replaces each error of an invalid value by one with this message, as Cassandra does.
fn or_misfit(prepared: Result<Term>, message: impl FnOnce() -> String) -> Result<Term> {
    prepared.or_else(|error| match error.kind {
        ErrorKind::Invalid => invalid(message()),
        // The statement's time is over.
        _ => Err(error),
    })
}

fn part(
    what: &str,
    column: &Column,
    ty: &CqlType,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<Term> {
    let receiver = Receiver::new(format!("{what}({})", column.name), ty.clone());
    term::prepare(value, &receiver, markers)
}

fn index(column: &Column, value: &ast::Term, markers: &mut Markers) -> Result<Term> {
    part("idx", column, &CqlType::Int, value, markers)
}

fn field_of<'t>(
    column: &Column,
    definition: &'t UserType,
    field: &ast::Name,
) -> Result<(u16, &'t CqlType)> {
    let number = definition.field(field.as_str());
    let numbered = number.and_then(|number| Some((u16::try_from(number).ok()?, number)));
    match numbered {
        Some((number, at)) => Ok((number, &definition.fields()[at].1)),
        None => invalid(format!(
            "UDT column {} does not have a field named {}",
            column.name,
            field.as_str()
        )),
    }
}
