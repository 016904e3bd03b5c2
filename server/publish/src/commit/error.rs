//! Errors of a commit, and the reasons for which there is nothing to commit.

use crate::iceberg::AvroError;
use crate::target::TargetError;

/// An error of a commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The target cannot be read or written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The metadata of the table cannot be read or encoded.
    #[error("{table}: {error}")]
    Metadata {
        /// The table in the target.
        table: String,
        /// The reason.
        error: serde_json::Error,
    },
    /// An object of the table is not what it should be.
    #[error("{url}: {error}")]
    Damaged {
        /// The location of the object.
        url: String,
        /// The reason.
        error: AvroError,
    },
    /// The table is not one that this publication may continue.
    #[error("{table}: {reason}")]
    Refused {
        /// The table in the target.
        table: String,
        /// The reason, and what to do.
        reason: String,
    },
}

impl CommitError {
    /// Returns the error of a publisher that was overtaken at the table `table`.
    pub(super) fn overtaken(table: &str) -> Self {
        Self::Refused {
            table: table.to_owned(),
            reason: "another publisher committed at the same time; publish again".to_owned(),
        }
    }
}

/// The reason for which there is nothing to write.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// The table must not be continued.
    #[error("{0}")]
    Refused(String),
    /// The metadata cannot be encoded.
    #[error(transparent)]
    Metadata(#[from] serde_json::Error),
}

impl DecisionError {
    /// Returns the error of a commit of `table`.
    pub(super) fn of(self, table: &str) -> CommitError {
        let table = table.to_owned();
        match self {
            Self::Refused(reason) => CommitError::Refused { table, reason },
            Self::Metadata(error) => CommitError::Metadata { table, error },
        }
    }
}
