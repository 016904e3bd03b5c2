//! Why the catalog cannot do what is asked.

use ebb_model::schema::SchemaError;

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
         choose another name, or drop them with `ebb drop {keyspace}.{}`",
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

impl CatalogError {
    /// The error, about an object as a snapshot has it.
    #[must_use]
    pub fn at_snapshot(self, snapshot: &str) -> Self {
        match self {
            Self::Schema(SchemaError::Unreadable(unreadable)) => {
                Self::Schema(unreadable.at_snapshot(snapshot).into())
            }
            other => other,
        }
    }
}

impl From<SchemaError> for CatalogError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

/// What the catalog's operations give.
pub type Result<T, E = CatalogError> = std::result::Result<T, E>;
