//! The errors of the catalog.

use ebb_model::schema::SchemaError;

/// The reason why an operation of the catalog failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CatalogError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] ebb_storage::Error),
    /// The schema rejects a change, or a part of the schema is unreadable.
    #[error("{0}")]
    Schema(SchemaError),
    /// A record of the catalog cannot be decoded.
    #[error("{what} is damaged: {detail}; restore the database from a backup")]
    Corrupt {
        /// The name of the record.
        what: String,
        /// The kind of damage.
        detail: String,
    },
    /// The database has tables that CQL did not create.
    #[error(
        "keyspace {keyspace} of the database holds tables that were not made by CQL ({}); \
         choose another name, or drop them with `ebb drop {keyspace}.{}`",
        .tables.join(", "),
        .tables.first().map_or("TABLE", String::as_str)
    )]
    Foreign {
        keyspace: String,
        /// The names of the tables that CQL did not create, at least one.
        tables: Vec<String>,
    },
    /// The schema has changed, but a later step failed, such as the removal of permissions on a
    /// dropped object. A later change of the schema, or the next opening, completes the step.
    #[error(transparent)]
    Unfinished(Box<Self>),
}

impl CatalogError {
    /// If this is the error about an unreadable object, adds that the object is unreadable at `snapshot`.
    /// Returns any other error unchanged.
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

/// The result of a catalog operation.
pub type Result<T, E = CatalogError> = std::result::Result<T, E>;
