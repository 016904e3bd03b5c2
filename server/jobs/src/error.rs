//! Errors of jobs that cannot be started or queried.

mod history;
mod request;

use std::io;
use std::path::PathBuf;

use ebb_colocate::ColocateError;
use ebb_scheduler::runtime::{SubmitError, TaskError};
use ebb_storage::ErrorKind;
use ebb_tables::CatalogError;
use ebb_tables::lookup::LookupError;
use ebb_tables::read::{DamageReason, TableError};

pub use self::history::HistoryError;
pub use self::request::RequestError;

/// The error of a job that did not start or cannot be queried. The cause is its source.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The request cannot be followed.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// A table, a snapshot or a job does not exist.
    #[error("{0}")]
    Lookup(#[from] LookupError),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] ebb_storage::Error),
    /// The schema of a table cannot be read, or does not allow the operation.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// The history of jobs cannot be read or written.
    #[error("{0}")]
    History(#[from] HistoryError),
    /// An input or the output rejects the job.
    #[error("{0}")]
    Task(#[from] TaskError),
    /// The runtime rejects the job.
    #[error("{0}")]
    Submit(#[from] SubmitError),
    /// The co-location loop, which runs jobs, does not start.
    #[error("{0}")]
    Colocate(#[from] ColocateError),
    /// A scenario cannot be read.
    #[error("{0}")]
    Scenario(#[source] anyhow::Error),
    /// The system refuses a folder, a file or a thread.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed, as in "cannot make a folder".
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A table is named, and there is no database.
    #[error("{0} is a table, and this node has no database")]
    NoDatabase(String),
    #[error("the backup was cancelled, and everything that it had made is removed")]
    BackupCancelled,
    #[error("the verification was cancelled")]
    VerificationCancelled,
    /// A job is in a state that does not permit the change, for example because it runs. The text has
    /// the state and the remedy.
    #[error("{0}")]
    State(String),
    /// A job that is to be changed has ended.
    #[error("{application} {id} {how}: there is nothing to {change}")]
    Ended {
        application: String,
        id: String,
        /// The end of the job, as a verb: "has succeeded".
        how: &'static str,
        /// The change that an ended job does not allow: "cancel".
        change: &'static str,
    },
}

impl JobError {
    /// Returns the error of a request that turns out to make no sense once inputs are open.
    pub fn senseless(why: impl std::fmt::Display) -> Self {
        Self::Request(RequestError::Senseless(why.to_string()))
    }

    /// Returns a constructor of the system's error during the operation `what`.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    /// Returns a constructor of the error that a folder cannot be made.
    pub fn folder(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path: PathBuf = path.to_path_buf();
        Self::system(format!("make a folder for spills in {}", path.display()))
    }
}

/// Stored bytes that are no key, header or row of their table. The key is left out: each token of scope
/// `read` sees the cause of a failed job.
#[derive(Debug, thiserror::Error)]
#[error("a row of table {table} is damaged: {reason}; check the database with `ebb verify`")]
pub(crate) struct DamagedRow {
    table: String,
    reason: DamageReason,
}

/// Returns the error of a task that cannot read a table. The error of damage is final, because every
/// attempt would meet the damage again.
#[cold]
pub(crate) fn of_store(error: ebb_storage::Error) -> TaskError {
    match error.kind() {
        ErrorKind::Corruption => TaskError::fatal(error),
        _ => TaskError::failed(error),
    }
}

/// Returns the error of a task that cannot read rows of a table, as [`of_store`] does.
#[cold]
pub(crate) fn of_table(error: TableError) -> TaskError {
    match error {
        TableError::Store(error) => of_store(error),
        TableError::Damaged(damage) => TaskError::fatal(DamagedRow {
            table: damage.table,
            reason: damage.reason,
        }),
    }
}
