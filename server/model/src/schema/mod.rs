//! Keyspaces, tables, columns and user-defined types, as values, as records and as DDL.
//!
//! A [`Schema`] is all keyspaces at one moment. It never changes: executors hold it by `Arc`,
//! and a DDL statement makes a new one, or says in Cassandra's words why not. Nothing here
//! reads or writes; who runs a statement stores the records and then shows the new schema.
//!
//! ```text
//! catalog    all keyspaces: look-ups, what changes several tables, the version
//! opening    what a start reads, and the check of a change by the same functions
//! unreadable   objects whose records cannot be read, by name with the reason
//! keyspace   one keyspace: replication, types, tables
//! alter      a table after ADD, DROP, RENAME, WITH
//! table      one table: columns, their ids, keys
//! rules      the rules for tables: one list for CREATE, ALTER and records
//! index      secondary indexes, and the values that rows are under
//! options    what stands behind WITH
//! record     the bytes that are stored, from untrusted bytes
//! describe   the statements that make it, as DESCRIBE prints them
//! ```

mod alter;
mod catalog;
mod describe;
mod index;
mod keyspace;
mod opening;
mod options;
mod record;
mod rules;
mod table;
#[cfg(test)]
mod tests;
mod unreadable;

use std::sync::Arc;

pub use catalog::Schema;
pub use index::{IndexSchema, IndexTarget, Indexed, IndexedColumn};
pub use keyspace::KeyspaceSchema;
pub use options::{Compressor, OptionValue, TableOptions};
pub(crate) use record::read_record;
pub use table::{Column, ColumnId, ColumnKind, DroppedColumn, TableDefinition, TableSchema};
pub use unreadable::{ObjectKind, Unreadable};

pub use crate::types::UserType;
use crate::types::{CqlType, TypeError};

/// The longest name of a keyspace or table.
pub const NAME_LEN_MAX: usize = 48;

/// A change or a record that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The statement asks for what cannot be (Cassandra's code 0x2200).
    #[error("{0}")]
    Invalid(String),
    /// An option or a name is wrong (Cassandra's code 0x2300).
    #[error("{0}")]
    Configuration(String),
    /// The keyspace is there already (Cassandra's code 0x2400).
    #[error("Cannot add existing keyspace \"{0}\"")]
    KeyspaceExists(String),
    /// The table is there already (Cassandra's code 0x2400).
    #[error("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")]
    TableExists {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        table: String,
    },
    /// A stored record that cannot be read: damaged, or of a format this version lacks.
    #[error("schema record: {0}")]
    Record(String),
    /// The statement names an object that is there, and whose record cannot be read.
    #[error("{0}")]
    Unreadable(Box<Unreadable>),
}

impl SchemaError {
    /// The reason, as a part of a longer message.
    pub fn reason(&self) -> String {
        match self {
            Self::Record(reason) => reason.clone(),
            other => other.to_string(),
        }
    }
}

impl From<TypeError> for SchemaError {
    fn from(error: TypeError) -> Self {
        Self::Invalid(error.to_string())
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::Invalid(message.into()))
}

/// Holds the name of a keyspace or table to Cassandra's rules; the error says them.
fn check_name(kind: &str, name: &str) -> Result<(), String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(word) {
        return Ok(());
    }
    Err(format!(
        "{kind} name must not be empty, more than {NAME_LEN_MAX} characters long, or contain \
         non-alphanumeric-underscore characters (got \"{name}\")"
    ))
}

/// A type with every use of the user-defined type of `new`'s name replaced by `new`.
fn replace_type(ty: &CqlType, new: &Arc<UserType>) -> Result<CqlType, TypeError> {
    if !ty.mentions(new.name()) {
        return Ok(ty.clone());
    }
    let inner = |t: &Arc<CqlType>| replace_type(t, new).map(Arc::new);
    Ok(match ty {
        CqlType::List { element, frozen } => CqlType::List {
            element: inner(element)?,
            frozen: *frozen,
        },
        CqlType::Set { element, frozen } => CqlType::Set {
            element: inner(element)?,
            frozen: *frozen,
        },
        CqlType::Map { key, value, frozen } => CqlType::Map {
            key: inner(key)?,
            value: inner(value)?,
            frozen: *frozen,
        },
        CqlType::Tuple(types) => CqlType::Tuple(
            types
                .iter()
                .map(|t| replace_type(t, new))
                .collect::<Result<_, _>>()?,
        ),
        CqlType::Udt { definition, frozen } => CqlType::Udt {
            definition: if definition.name() == new.name() {
                new.clone()
            } else {
                Arc::new(replace_in_type(definition, new)?)
            },
            frozen: *frozen,
        },
        native => native.clone(),
    })
}

/// A user-defined type with `new` replaced in its fields.
fn replace_in_type(definition: &UserType, new: &Arc<UserType>) -> Result<UserType, TypeError> {
    let fields = definition
        .fields()
        .iter()
        .map(|(name, ty)| Ok((name.clone(), replace_type(ty, new)?)))
        .collect::<Result<Vec<_>, TypeError>>()?;
    UserType::new(definition.keyspace(), definition.name(), fields)
}
