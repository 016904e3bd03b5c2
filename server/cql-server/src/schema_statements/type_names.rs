//! Types as statements write them, as the schema knows them.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::NESTING_MAX;
use ebb_cql::syntax::ast::TypeName;
use ebb_model::schema::KeyspaceSchema;
use ebb_model::types::{CqlType, WRITTEN_DEPTH_MAX};

use crate::error::of_schema;

// What DESCRIBE prints of an accepted type can be parsed.
const _: () = assert!(WRITTEN_DEPTH_MAX == NESTING_MAX);

/// The type that a statement about `keyspace` names. What may not stand where it stands is
/// told by [`CqlType::check`], which this asks too.
///
/// # Errors
/// For a user-defined type that is not there or of another keyspace, and for a type that
/// CQL or ebb does not allow.
pub fn resolve_type(
    keyspace: &KeyspaceSchema,
    written: &TypeName,
) -> Result<CqlType, ErrorResponse> {
    let ty = resolve(keyspace, written)?;
    check_collections(written)?;
    let checked = ty.check();
    checked.map_err(|error| ErrorResponse::invalid(error.to_string()))?;
    Ok(ty)
}

/// Refuses user-defined types that are not frozen in collections that are not, with the
/// names of the types as they are written.
fn check_collections(written: &TypeName) -> Result<(), ErrorResponse> {
    let parts: &[&TypeName] = match written {
        TypeName::List(element) | TypeName::Set(element) => &[element],
        TypeName::Map(key, value) => &[key, value],
        // What is frozen freezes what it holds.
        _ => return Ok(()),
    };
    if parts.iter().any(|part| matches!(part, TypeName::User(_))) {
        return Err(ErrorResponse::invalid(format!(
            "Non-frozen UDTs are not allowed inside collections: {written}"
        )));
    }
    parts.iter().try_for_each(|part| check_collections(part))
}

fn resolve(keyspace: &KeyspaceSchema, written: &TypeName) -> Result<CqlType, ErrorResponse> {
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
                return Err(ErrorResponse::invalid(format!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types \
                     (got {inner})"
                )));
            }
            inner.freeze()
        }
        TypeName::User(name) => {
            let here = keyspace.name();
            if let Some(other) = name.keyspace.as_ref().filter(|other| **other != here) {
                return Err(ErrorResponse::invalid(format!(
                    "Statement on keyspace {here} cannot refer to a user type in keyspace {}; \
                     user types can only be used in the keyspace they are defined in",
                    other.as_str()
                )));
            }
            let name = name.name.as_str();
            let definition = keyspace.user_type(name).ok_or_else(|| {
                let unknown = || ErrorResponse::invalid(format!("Unknown type {here}.{name}"));
                (keyspace.unreadable_type(name)).map_or_else(unknown, of_schema)
            })?;
            CqlType::udt(definition.clone())
        }
        TypeName::Vector(..) => {
            return Err(ErrorResponse::invalid("The type vector is not supported"));
        }
        TypeName::Custom(class) => {
            return Err(ErrorResponse::invalid(format!(
                "Types of Cassandra's own classes are not supported: '{class}'"
            )));
        }
    })
}
