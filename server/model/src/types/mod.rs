//! CQL types and their native serialization.
//!
//! A value is bytes as the native protocol sends them; what they mean, a [`CqlType`] says.
//! Bytes from clients go through [`CqlType::validate`] once; whoever reads them later may
//! rely on it, yet nothing here panics, loops or allocates beyond its input where they are
//! wrong.
//!
//! ```text
//! cql_type, user_type   what types there are, and CQL's rules about their nesting
//! name, option          a type as system_schema spells it; as result metadata says it
//! validate, elements    untrusted bytes; the parts of collections, tuples, user types
//! compare, number       Cassandra's order of values
//! sort, normal          values brought into that order, by a sort that can be given up
//! literal               a value as CQL writes it, both ways
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

/// A type or a value that CQL refuses, in Cassandra's words where it has any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeError(String);

impl TypeError {
    /// An error that reads `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
