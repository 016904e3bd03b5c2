//! The resolution of type names in statements.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::NESTING_MAX;
use ebb_cql::syntax::ast::TypeName;
use ebb_model::schema::KeyspaceSchema;
use ebb_model::types::{CqlType, WRITTEN_DEPTH_MAX};

use crate::error::{Result, invalid, of_schema};

// The parser accepts every type that DESCRIBE prints.
const _: () = assert!(WRITTEN_DEPTH_MAX == NESTING_MAX);

/// Resolves the name of a type in a statement about `keyspace`, and checks that CQL permits the
/// type here and that ebb does ([`CqlType::check`]).
///
/// # Errors
/// If a user-defined type is missing or of another keyspace, or if CQL or ebb does not permit the
/// type.
pub fn resolve_type(keyspace: &KeyspaceSchema, written: &TypeName) -> Result<CqlType> {
    let ty = resolve(keyspace, written)?;
    check_collections(written)?;
    let checked = ty.check();
    checked.map_err(|error| ErrorResponse::invalid(error.to_string()))?;
    Ok(ty)
}

/// Rejects collections that are not frozen and contain user-defined types that are not frozen. The
/// error contains the collection as written in the statement.
fn check_collections(written: &TypeName) -> Result<()> {
    let parts: &[&TypeName] = match written {
        TypeName::List(element) | TypeName::Set(element) => &[element],
        TypeName::Map(key, value) => &[key, value],
        // `frozen` also freezes the types inside.
        _ => return Ok(()),
    };
    if parts.iter().any(|part| matches!(part, TypeName::User(_))) {
        return invalid(format!(
            "Non-frozen UDTs are not allowed inside collections: {written}"
        ));
    }
    parts.iter().try_for_each(|part| check_collections(part))
}

fn resolve(keyspace: &KeyspaceSchema, written: &TypeName) -> Result<CqlType> {
    let inner = |written: &TypeName| resolve(keyspace, written);
    Ok(match written {
        TypeName::Native(native) => native.clone(),
        TypeName::List(element) => CqlType::list(inner(element)?),
        TypeName::Set(element) => CqlType::set(inner(element)?),
        TypeName::Map(key, value) => CqlType::map(inner(key)?, inner(value)?),
        TypeName::Tuple(types) => {
            let types: Vec<_> = types.iter().map(inner).collect::<Result<_, _>>()?;
            CqlType::tuple(types)
        }
        TypeName::Frozen(frozen) => {
            let inner = inner(frozen)?;
            if inner.is_native() {
                return invalid(format!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types \
                     (got {inner})"
                ));
            }
            inner.freeze()
        }
        TypeName::User(name) => {
            let here = keyspace.name();
            if let Some(other) = name.keyspace.as_ref().filter(|other| **other != here) {
                return invalid(format!(
                    "Statement on keyspace {here} cannot refer to a user type in keyspace {}; \
                     user types can only be used in the keyspace they are defined in",
                    other.as_str()
                ));
            }
            let name = name.name.as_str();
            let definition = keyspace.user_type(name).ok_or_else(|| {
                let unknown = || ErrorResponse::invalid(format!("Unknown type {here}.{name}"));
                (keyspace.unreadable_type(name)).map_or_else(unknown, of_schema)
            })?;
            CqlType::udt(definition.clone())
        }
        TypeName::Vector(..) => {
            return invalid("The type vector is not supported");
        }
        TypeName::Custom(class) => {
            return invalid(format!(
                "Types of Cassandra's own classes are not supported: '{class}'"
            ));
        }
    })
}
