//! Errors of reads of rows.

use ebb_model::key::KeyError;
use ebb_model::key::ordered::DecodeError;
use ebb_model::row::RowError;
use ebb_model::schema::TableSchema;
use ebb_model::types::{Hex, TypeError};

use super::entries::Ended;

/// An error of a read of rows.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TableError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] ebb_storage::Error),
    /// The store returned bytes that are no key, partition header (deletions and static columns) or
    /// row of the table.
    #[error("{0}")]
    Damaged(Box<Damage>),
    /// The caller ended the read by its [`Pace`](super::Pace), with this error.
    #[error("{0}")]
    Ended(Ended),
}

/// Stored bytes that are no key, partition header (deletions and static columns) or row of their
/// table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of table {table} is damaged: {reason}, at key {}", Hex(key))]
pub struct Damage {
    /// The table, as `KEYSPACE.TABLE`.
    pub table: String,
    /// The key under which the storage engine has the damaged bytes.
    pub key: Vec<u8>,
    /// The damage that a decoder found.
    pub reason: DamageReason,
}

/// Damage of stored bytes, as a decoder reports it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// The key cannot be decoded.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The row cannot be decoded, or the header of the partition, which has its deletions and
    /// static columns.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A value is invalid for its type.
    #[error(transparent)]
    Value(#[from] TypeError),
}

impl TableError {
    /// Returns the error for damaged bytes under `key`.
    #[cold]
    pub fn damaged(schema: &TableSchema, key: &[u8], reason: impl Into<DamageReason>) -> Self {
        Self::Damaged(Box::new(Damage {
            table: format!("{}.{}", schema.keyspace(), schema.name()),
            key: key.to_vec(),
            reason: reason.into(),
        }))
    }

    /// Converts an error of decoding the bytes under `key`: damage of these bytes, or the error with which
    /// the caller of the read ended the decoding.
    #[cold]
    pub(super) fn of_decoding<F>(
        schema: &TableSchema,
        key: &[u8],
        error: DecodeError<F, Ended>,
    ) -> Self
    where
        F: Into<DamageReason>,
    {
        match error {
            DecodeError::Damaged(reason) => Self::damaged(schema, key, reason),
            DecodeError::Charge(ended) => Self::Ended(ended),
        }
    }
}

/// The result of a read of rows.
pub(super) type Result<T, E = TableError> = std::result::Result<T, E>;
