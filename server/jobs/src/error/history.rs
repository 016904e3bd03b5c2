//! The errors of the history of jobs.

use ebb_tables::names::SYSTEM_KEYSPACE;

/// The error of a history that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] ebb_storage::Error),
    /// The history has a version that another build wrote and this build cannot read.
    #[error(
        "the history of jobs in keyspace {SYSTEM_KEYSPACE} has version {found:?}, and this build \
         of ebb knows version {known:?} only: use the build that wrote it"
    )]
    Version {
        /// The version that the stored history has.
        found: String,
        /// The version that this build reads.
        known: &'static str,
    },
    /// A row of the job history does not have the form that this version writes.
    #[error("row {key:?} of {SYSTEM_KEYSPACE}.{table} cannot be read: {source}")]
    Row {
        /// The table of the row.
        table: &'static str,
        /// The key of the row.
        key: String,
        source: serde_json::Error,
    },
}
