//! Types as a statement writes them, resolved.

use std::sync::Arc;

use ebb_cql::syntax::ast::TypeName;
use ebb_model::types::{CqlType, UserType};

use crate::error::{Result, invalid, of_type};

/// A type without user-defined ones in it: of a hint or a cast.
///
/// # Errors
/// Where it names a type that is not known here.
pub fn resolve_native(name: &TypeName) -> Result<CqlType> {
    resolve(name, &|_| None)
}

/// A type; `user` finds the user-defined ones of its keyspace.
///
/// # Errors
/// In Cassandra's words, where it names a type that is not there, or may not be.
pub fn resolve(name: &TypeName, user: &dyn Fn(&str) -> Option<Arc<UserType>>) -> Result<CqlType> {
    let inner = |name: &TypeName| resolve(name, user);
    let ty = match name {
        TypeName::Native(native) => return Ok(native.clone()),
        TypeName::List(element) => CqlType::list(inner(element)?),
        TypeName::Set(element) => CqlType::set(inner(element)?),
        TypeName::Map(key, value) => CqlType::map(inner(key)?, inner(value)?),
        TypeName::Tuple(types) => {
            CqlType::tuple(types.iter().map(inner).collect::<Result<Vec<_>>>()?)
        }
        TypeName::Frozen(of) => inner(of)?.freeze(),
        TypeName::User(name) => match user(name.name.as_str()) {
            Some(definition) => CqlType::udt(definition),
            None => return invalid(format!("Unknown type {name}")),
        },
        TypeName::Vector(..) => return invalid("vectors are not supported"),
        TypeName::Custom(class) => return invalid(format!("Unknown type '{class}'")),
    };
    ty.check().map_err(of_type)?;
    Ok(ty)
}
