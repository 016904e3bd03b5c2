//! Resolution of the names of types in type hints and casts.

use std::sync::Arc;

use ebb_cql::syntax::ast::{QualifiedName, TypeName};
use ebb_model::schema::TableSchema;
use ebb_model::types::{CqlType, UserType};

use crate::error::{Result, invalid, of_type};

/// Resolves the name of a type in a statement on a table. Finds only those user-defined types that
/// the columns of the table use: a prepared statement is analysed again when these types change,
/// but not when other types of the keyspace change.
pub fn resolve(name: &TypeName, schema: &TableSchema) -> Result<CqlType> {
    resolve_with(name, &|name| {
        let mut columns = schema.columns().iter();
        match columns.find_map(|column| user_type(&column.ty, name)) {
            Some(found) => Ok(found),
            None => invalid(format!(
                "Unknown type {name}: no column of the table has it"
            )),
        }
    })
}

/// Resolves the type of a value that is written to a receiver of type `around`. Finds only the
/// user-defined types within `around`, because the value can contain no others.
pub fn resolve_within(name: &TypeName, around: &CqlType) -> Result<CqlType> {
    resolve_with(name, &|name| match user_type(around, name) {
        Some(found) => Ok(found),
        None => invalid(format!("Unknown type {name}: the value has type {around}")),
    })
}

/// Returns the user-defined type `name`, if `ty` is that type or contains it.
fn user_type(ty: &CqlType, name: &QualifiedName) -> Option<Arc<UserType>> {
    let found = ty.user_type(name.name.as_str())?;
    let keyspace = name.keyspace.as_ref();
    let is_there = keyspace.is_none_or(|keyspace| keyspace.as_str() == found.keyspace());
    is_there.then(|| found.clone())
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
