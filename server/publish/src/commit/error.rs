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
    /// The metadata file of the table cannot be decoded or encoded.
    #[error("{name}: {error}")]
    Metadata {
        /// The name of the metadata file in the target.
        name: String,
        error: serde_json::Error,
    },
    /// A manifest or a manifest list of the table is damaged or missing.
    #[error("{url}: {error}")]
    Damaged {
        /// The location of the manifest or of the manifest list.
        url: String,
        error: AvroError,
    },
    /// The publication must not be committed to this table.
    #[error("{table}: {reason}")]
    Refused {
        /// The name of the table: its folder in the target.
        table: String,
        /// The reason, and what to do.
        reason: String,
    },
}

impl CommitError {
    /// Returns the error of a commit to `table` that comes too late, because another publisher has changed
    /// the table.
    pub(super) fn overtaken(table: &str) -> Self {
        Self::Refused {
            table: table.to_owned(),
            reason: "another publisher committed at the same time; publish again".to_owned(),
        }
    }
}

/// The reason why a publication must not be committed to a table, and what to do.
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
