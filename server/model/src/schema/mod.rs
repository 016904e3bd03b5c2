//! Keyspaces, tables, columns and user-defined types, as values, as records and as DDL.
//!
//! A [`Schema`] contains all keyspaces at one moment and is immutable: executors hold it by `Arc`,
//! and a DDL statement returns a new one, or an error with Cassandra's message. This module does no
//! I/O; the executor of a statement stores the records and then publishes the new schema.
//!
//! ```text
//! catalog    all keyspaces: look-ups, changes of several tables, the version
//! opening    decoding at the start of a server, and the check of a change by the same functions
//! unreadable   objects whose records cannot be read, by name with the reason
//! keyspace   one keyspace: replication, types, tables
//! alter      a table after ADD, DROP, RENAME, WITH
//! table      one table: columns, their ids, keys
//! rules      the rules for tables: one list for CREATE, ALTER and records
//! index      secondary indexes, and the key prefixes of their entries
//! options    the options of WITH
//! record     the stored records, and their decoding from untrusted bytes
//! describe   the CREATE statements that DESCRIBE prints
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
pub use index::{IndexSchema, IndexTarget, Indexed, IndexedColumn, len_in_path};
pub use keyspace::KeyspaceSchema;
pub use options::{Compressor, OptionValue, TableOptions};
pub(crate) use record::read_record;
pub use table::{Column, ColumnId, ColumnKind, DroppedColumn, TableDefinition, TableSchema};
pub use unreadable::{ObjectKind, Unreadable};

pub use crate::types::UserType;
use crate::types::{CqlType, TypeError};

/// The maximal length of the name of a keyspace or table in characters, as in Cassandra.
pub const NAME_LEN_MAX: usize = 48;

/// The maximal length in bytes of the names for which Cassandra has no limit: those of columns, types,
/// fields, indexes, roles and identities. Such a name is part of the key of a row in `system_schema`
/// or `system_auth`, and of strings of the protocol. The limit of both is 65,535 bytes, and such a key
/// also contains the names of a keyspace and a table. 4,096 bytes leave room for two long names in one
/// key, and for the longest identity, a SPIFFE ID of 2,048 bytes.
pub const LONG_NAME_BYTES_MAX: usize = 4096;

/// The error of a rejected change or an unreadable record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The statement is invalid (Cassandra's code 0x2200).
    #[error("{0}")]
    Invalid(String),
    /// An option or a name is wrong (Cassandra's code 0x2300).
    #[error("{0}")]
    Configuration(String),
    /// The keyspace exists already (Cassandra's code 0x2400).
    #[error("Cannot add existing keyspace \"{0}\"")]
    KeyspaceExists(String),
    /// The table exists already (Cassandra's code 0x2400).
    #[error("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")]
    TableExists {
        /// The table's keyspace.
        keyspace: String,
        /// The table's name.
        table: String,
    },
    /// A stored record cannot be read: it is damaged, or has a format that this version does not
    /// support.
    #[error("schema record: {0}")]
    Record(String),
    /// The statement concerns, or may concern, an object that exists but whose record cannot be
    /// read.
    #[error("{0}")]
    Unreadable(Box<Unreadable>),
}

impl SchemaError {
    /// Returns the reason without the prefix of [`Record`](Self::Record), to be put into a longer
    /// message.
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

/// Checks the name of a keyspace or table against Cassandra's rules; the error states them.
fn check_name(kind: &str, name: &str) -> Result<(), String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(word) {
        return Ok(());
    }
    // The quotes are Cassandra's.
    let quote = if kind == "Keyspace" { '\'' } else { '"' };
    Err(format!(
        "{kind} name must not be empty, more than {NAME_LEN_MAX} characters long, or contain \
         non-alphanumeric-underscore characters (got {quote}{name}{quote})"
    ))
}

/// Checks the length of a name that a statement gives to a column, type, field, index, role or identity.
/// Stored names are not checked: earlier versions accepted any length.
///
/// # Errors
/// If the name has more than [`LONG_NAME_BYTES_MAX`] bytes. The message leaves out the name.
pub fn check_name_length(kind: &str, name: &str) -> Result<(), SchemaError> {
    if name.len() <= LONG_NAME_BYTES_MAX {
        return Ok(());
    }
    invalid(format!(
        "{kind} name must not be more than {LONG_NAME_BYTES_MAX} bytes long (got {} bytes)",
        name.len()
    ))
}

/// Replaces every use of the user-defined type with `new`'s name by `new`.
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

/// Replaces every use of the user-defined type with `new`'s name by `new` in the fields of the type
/// `definition`.
fn replace_in_type(definition: &UserType, new: &Arc<UserType>) -> Result<UserType, TypeError> {
    let fields = definition
        .fields()
        .iter()
        .map(|(name, ty)| Ok((name.clone(), replace_type(ty, new)?)))
        .collect::<Result<Vec<_>, TypeError>>()?;
    UserType::new(definition.keyspace(), definition.name(), fields)
}
