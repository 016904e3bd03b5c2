//! Resolution of the names of types in type hints and casts.

use std::sync::Arc;

use ebb_cql::syntax::ast::{QualifiedName, TypeName};
use ebb_model::schema::TableSchema;
use ebb_model::types::{CqlType, UserType};

use crate::error::{Result, invalid, of_type};
use crate::interrupt;

/// The number of types that a search for a user-defined type visits in about a microsecond, the
/// unit that [`interrupt::charge`] counts.
const TYPES_PER_UNIT: usize = 64;

/// Resolves the name of a type in a statement on a table. Finds only those user-defined types that
/// the columns of the table use: a prepared statement is analysed again when these types change,
/// but not when other types of the keyspace change.
pub fn resolve(name: &TypeName, schema: &TableSchema) -> Result<CqlType> {
    resolve_with(name, &|name| {
        let columns = schema.columns();
        interrupt::charge((columns.len() / TYPES_PER_UNIT) as u64)?;
        for column in columns {
            if let Some(found) = user_type(&column.ty, name)? {
                return Ok(found);
            }
        }
        invalid(format!(
            "Unknown type {name}: no column of the table has it"
        ))
    })
}

/// Resolves the type of a value that is written to a receiver of type `around`. Finds only the
/// user-defined types within `around`, because the value can contain no others.
pub fn resolve_within(name: &TypeName, around: &CqlType) -> Result<CqlType> {
    resolve_with(name, &|name| match user_type(around, name)? {
        Some(found) => Ok(found),
        None => invalid(format!("Unknown type {name}: the value has type {around}")),
    })
}

/// Returns the user-defined type `name`, if `ty` is that type or contains it. Charges the statement
/// for the types that the search visits, up to thousands in one column.
fn user_type(ty: &CqlType, name: &QualifiedName) -> Result<Option<Arc<UserType>>> {
    interrupt::charge((ty.nodes() / TYPES_PER_UNIT) as u64)?;
    let keyspace = name.keyspace.as_ref();
    let is_of_keyspace =
        |found: &&Arc<UserType>| keyspace.is_none_or(|of| of.as_str() == found.keyspace());
    let found = ty.user_type(name.name.as_str());
    Ok(found.filter(is_of_keyspace).cloned())
}

fn resolve_with(
    name: &TypeName,
    find: &dyn Fn(&QualifiedName) -> Result<Arc<UserType>>,
) -> Result<CqlType> {
    let inner = |name: &TypeName| resolve_with(name, find);
    let ty = match name {
        TypeName::Native(native) => return Ok(native.clone()),
        TypeName::List(element) => CqlType::list(inner(element)?),
        TypeName::Set(element) => CqlType::set(inner(element)?),
        TypeName::Map(key, value) => CqlType::map(inner(key)?, inner(value)?),
        TypeName::Tuple(types) => {
            let types: Result<Vec<_>> = types.iter().map(inner).collect();
            CqlType::tuple(types?)
        }
        TypeName::Frozen(of) => inner(of)?.freeze(),
        TypeName::User(name) => CqlType::udt(find(name)?),
        TypeName::Vector(..) => return invalid("vectors are not supported"),
        TypeName::Custom(class) => return invalid(format!("Unknown type '{class}'")),
    };
    ty.check().map_err(of_type)?;
    Ok(ty)
}
