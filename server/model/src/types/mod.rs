//! CQL types and their native serialization.
//!
//! A value consists of the bytes that the native protocol sends; a [`CqlType`] gives them a
//! meaning. [`CqlType::validate`] checks the bytes from clients once, and later readers rely on it.
//! Yet with invalid bytes no function here panics, loops or allocates beyond its input.
//!
//! ```text
//! cql_type, user_type   the types, and CQL's rules about their nesting
//! name, option          a type as text in system_schema, and as bytes in result metadata
//! validate, elements    untrusted bytes; the parts of collections, tuples, user types
//! compare, number       Cassandra's order of values
//! sort, normal          values brought into that order, by a sort that can be interrupted
//! literal               a value as text in CQL, both ways
//! generate              random values of any type, for tests
//! ```

pub(crate) mod compare;
mod cql_type;
pub mod elements;
#[cfg(any(test, feature = "generate"))]
pub mod generate;
mod hex;
pub mod identifier;
pub mod literal;
mod name;
mod normal;
pub mod number;
mod option;
mod sort;
#[cfg(test)]
pub(crate) mod tests;
mod user_type;
mod validate;
pub mod vint;

pub use cql_type::{CqlType, DEPTH_MAX, NODES_MAX, WRITTEN_DEPTH_MAX};
pub use hex::Hex;
pub use name::QuotedType;
pub use option::DurationOption;
pub use sort::{Charge, sort_once, sort_stable};
pub use user_type::UserType;

/// The error of an invalid type or value, with Cassandra's message where Cassandra has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeError(String);

impl TypeError {
    /// Returns an error with the text `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
