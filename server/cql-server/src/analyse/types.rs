//! Resolution of the types that statements name.

use ebb_cql::syntax::ast::TypeName;
use ebb_model::types::CqlType;

use crate::error::{Result, invalid, of_type};

/// Resolves the type of a hint or a cast. User-defined types are not permitted there.
pub fn resolve_native(name: &TypeName) -> Result<CqlType> {
    let ty = match name {
        TypeName::Native(native) => return Ok(native.clone()),
        TypeName::List(element) => CqlType::list(resolve_native(element)?),
        TypeName::Set(element) => CqlType::set(resolve_native(element)?),
        TypeName::Map(key, value) => CqlType::map(resolve_native(key)?, resolve_native(value)?),
        TypeName::Tuple(types) => {
            let types: Result<Vec<_>> = types.iter().map(resolve_native).collect();
            CqlType::tuple(types?)
        }
        TypeName::Frozen(of) => resolve_native(of)?.freeze(),
        TypeName::User(name) => return invalid(format!("Unknown type {name}")),
        TypeName::Vector(..) => return invalid("vectors are not supported"),
        TypeName::Custom(class) => return invalid(format!("Unknown type '{class}'")),
    };
    ty.check().map_err(of_type)?;
    Ok(ty)
}
