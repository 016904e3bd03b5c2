//! Errors of a commit, and the reasons for which there is nothing to commit.

use crate::catalog::CatalogError;
use crate::iceberg::AvroError;
use crate::target::TargetError;

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The target cannot be read or written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The catalog cannot be read or changed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The metadata of the table cannot be read or encoded.
    #[error("{name}: {error}")]
    Metadata {
        /// The file of the metadata in the target.
        name: String,
        error: serde_json::Error,
    },
    /// A manifest or a manifest list of the table is damaged or missing.
    #[error("{url}: {error}")]
    Damaged {
        /// The location of the object.
        url: String,
        error: AvroError,
    },
    /// The publication must not be committed to this table.
    #[error("{table}: {reason}")]
    Refused {
        /// The table in the target.
        table: String,
        /// The reason, and what to do.
        reason: String,
    },
}

impl CommitError {
    /// Returns the error that another publisher has changed the table `table` before this commit.
    pub(super) fn overtaken(table: &str) -> Self {
        Self::Refused {
            table: table.to_owned(),
            reason: "another publisher committed at the same time; publish again".to_owned(),
        }
    }
}

/// The reason why a publication must not commit to an existing table, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct DecisionError(pub(super) String);

impl DecisionError {
    /// Converts the reason into the error of a commit of `table`.
    pub(super) fn of(self, table: &str) -> CommitError {
        CommitError::Refused {
            table: table.to_owned(),
            reason: self.0,
        }
    }
}
