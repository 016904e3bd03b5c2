//! Why the catalog cannot do what is asked.

use ebb_catalog::schema::SchemaError;
use ebb_cql::protocol::ErrorResponse;
use ebb_storage::ErrorKind;

/// Why not.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CatalogError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] ebb_storage::Error),
    /// The schema refuses a change.
    #[error("{0}")]
    Schema(SchemaError),
    /// A record of the catalog is none.
    #[error("{what} is damaged: {detail}; restore the database from a backup")]
    Corrupt {
        /// Which record.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// There are tables of this database that CQL did not make.
    #[error(
        "keyspace {keyspace} of the database holds tables that were not made by CQL ({}); \
         choose another name, or drop them with `ebb table drop {keyspace}.{}`",
        .tables.join(", "),
        .tables.first().map_or("TABLE", String::as_str)
    )]
    Foreign {
        /// The keyspace.
        keyspace: String,
        /// Their names, at least one.
        tables: Vec<String>,
    },
}

impl From<SchemaError> for CatalogError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

impl From<CatalogError> for ErrorResponse {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Schema(error) => match error {
                SchemaError::Invalid(message) => Self::invalid(message),
                SchemaError::Configuration(message) => Self::config(message),
                SchemaError::KeyspaceExists(keyspace) => Self::already_exists(&keyspace, ""),
                SchemaError::TableExists { keyspace, table } => {
                    Self::already_exists(&keyspace, &table)
                }
                SchemaError::Record(message) => Self::server(message),
            },
            CatalogError::Foreign { .. } => Self::invalid(error.to_string()),
            CatalogError::Store(ref store) => match store.kind() {
                ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::AlreadyExists => {
                    Self::invalid(error.to_string())
                }
                ErrorKind::DiskFull => Self::overloaded(error.to_string()),
                _ => Self::server(error.to_string()),
            },
            CatalogError::Corrupt { .. } => Self::server(error.to_string()),
        }
    }
}

/// What the catalog's operations give.
pub type Result<T, E = CatalogError> = std::result::Result<T, E>;
