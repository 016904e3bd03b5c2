//! Errors with Cassandra's codes and messages.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::{ParseError, ParseErrorKind};
use ebb_model::key::KeyError;
use ebb_model::key::ordered::{DecodeError, EncodeError};
use ebb_model::row::RowError;
use ebb_model::schema::SchemaError;
use ebb_model::types::TypeError;
use ebb_storage::ErrorKind;
use ebb_tables::CatalogError;
use ebb_tables::read::TableError;

pub type Result<T, E = ErrorResponse> = std::result::Result<T, E>;

/// Returns Cassandra's error for an invalid request (code 0x2200), with this message.
pub fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(ErrorResponse::invalid(message))
}

/// Returns Cassandra's error for an invalid option (code 0x2300), with this message.
pub fn config<T>(message: impl Into<String>) -> Result<T> {
    Err(ErrorResponse::config(message))
}

/// Returns the error of a result that takes more memory than a statement may use.
pub fn result_too_large(bytes_max: usize) -> ErrorResponse {
    ErrorResponse::invalid(format!(
        "The result has more than {bytes_max} bytes; ask for fewer rows or columns, or for pages"
    ))
}

pub fn of_parse(error: &ParseError) -> ErrorResponse {
    match error.kind() {
        ParseErrorKind::Syntax => ErrorResponse::syntax(error.to_string()),
        ParseErrorKind::Invalid => ErrorResponse::invalid(error.to_string()),
    }
}

pub fn of_type(error: TypeError) -> ErrorResponse {
    ErrorResponse::invalid(error.to_string())
}

/// Returns the error of a value that cannot be encoded in its order: the value is invalid, its type
/// has no order, it contains a decimal that is too long, or the time of the statement is over.
pub fn of_encoding(error: EncodeError<ErrorResponse>) -> ErrorResponse {
    match error {
        EncodeError::Value(error) | EncodeError::TooLong(error) => of_type(error),
        EncodeError::Charge(error) => error,
    }
}

/// Returns the error of a stored value that could not be decoded: the value is damaged, or the time
/// of the statement is over.
pub fn of_decoding(error: DecodeError<RowError, ErrorResponse>) -> ErrorResponse {
    match error {
        DecodeError::Damaged(error) => of_row(error),
        DecodeError::Charge(error) => error,
    }
}

/// Returns the error for an invalid key, either a damaged one from the store or one in a statement.
pub fn of_key(error: KeyError) -> ErrorResponse {
    match error {
        KeyError::Corrupt { .. } => damaged(&error),
        _ => ErrorResponse::invalid(error.to_string()),
    }
}

pub fn of_row(error: RowError) -> ErrorResponse {
    damaged(&error)
}

pub fn of_store(error: ebb_storage::Error) -> ErrorResponse {
    of_catalog(error.into())
}

/// Returns the error of a statement that cannot read rows of a table.
#[cold]
pub fn of_table(error: TableError) -> ErrorResponse {
    match error {
        TableError::Store(error) => of_store(error),
        TableError::Damaged(damage) => {
            ErrorResponse::server(format!("{damage}; check the database with `ebb verify`"))
        }
        TableError::Ended(ended) => match ended.downcast_ref::<ErrorResponse>() {
            Some(error) => error.clone(),
            None => ErrorResponse::server(ended.to_string()),
        },
    }
}

pub fn of_schema(error: SchemaError) -> ErrorResponse {
    match error {
        SchemaError::Invalid(message) => ErrorResponse::invalid(message),
        SchemaError::Configuration(message) => ErrorResponse::config(message),
        SchemaError::KeyspaceExists(keyspace) => ErrorResponse::already_exists(&keyspace, ""),
        SchemaError::TableExists { keyspace, table } => {
            ErrorResponse::already_exists(&keyspace, &table)
        }
        SchemaError::Record(message) => ErrorResponse::server(message),
        // The error of this statement only. It is no failure of the node, which serves everything
        // else.
        SchemaError::Unreadable(_) => ErrorResponse::invalid(error.to_string()),
    }
}

pub fn of_catalog(error: CatalogError) -> ErrorResponse {
    match error {
        CatalogError::Schema(error) => of_schema(error),
        CatalogError::Foreign { .. } => ErrorResponse::invalid(error.to_string()),
        CatalogError::Store(ref store) => match store.kind() {
            ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::AlreadyExists => {
                ErrorResponse::invalid(error.to_string())
            }
            ErrorKind::DiskFull => ErrorResponse::overloaded(error.to_string()),
            // The store wrote nothing, and a retry may find a free descriptor.
            _ if matches!(store, ebb_storage::Error::NoDescriptor { .. }) => {
                ErrorResponse::overloaded(error.to_string())
            }
            _ => ErrorResponse::server(error.to_string()),
        },
        CatalogError::Corrupt { .. } => ErrorResponse::server(error.to_string()),
        CatalogError::Unfinished(error) => of_catalog(*error),
    }
}

fn damaged(error: &dyn std::error::Error) -> ErrorResponse {
    ErrorResponse::server(format!(
        "a stored row cannot be read: {error}; check the database with `ebb verify`"
    ))
}
