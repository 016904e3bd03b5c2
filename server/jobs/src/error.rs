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

/// The error of a job that did not start or cannot be queried. The cause, if there is one, is the
/// source of this error.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The request is malformed, makes no sense, or has a format that this build does not support.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// A keyspace, a table, a snapshot or a job does not exist, or the store failed to look it up.
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
    /// A scenario for a simulation cannot be read.
    #[error("{0}")]
    Scenario(#[source] anyhow::Error),
    /// The operating system rejects an operation on a folder or a file, or does not start a thread.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed, as a verb with its object: "make a folder".
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The request needs a database, and the node has none. The text names the table or the work
    /// that needs the database, such as "a backup".
    #[error("this node has no database, which {0} needs")]
    NoDatabase(String),
    /// The client lacks a permission, such as that to read a table that its job reads, or its role
    /// is gone. The text names the permission or the role.
    #[error("{0}")]
    Forbidden(String),
    #[error("the backup was cancelled, and everything that it had made is removed")]
    BackupCancelled,
    #[error("the restore was cancelled; files that were restored before stay restored")]
    RestoreCancelled,
    #[error("the verification was cancelled")]
    VerificationCancelled,
    /// A job is in a state that does not permit the change, for example because it still runs, or because
    /// the snapshot that was made for it is gone. The text names the state and the remedy.
    #[error("{0}")]
    State(String),
    /// The job to be changed, for example cancelled, has already ended.
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
    /// Returns the error of a request that turns out to make no sense once its inputs are open; `why`
    /// is the reason.
    pub fn senseless(why: impl std::fmt::Display) -> Self {
        Self::Request(RequestError::Senseless(why.to_string()))
    }

    /// Returns whether the runtime accepts no job at present, for a reason that has nothing to do with the
    /// job: see [`SubmitError::is_transient`].
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Submit(refused) if refused.is_transient())
    }

    /// Returns a function that makes a [`JobError::System`] of an I/O error of the operation `what`.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    /// Returns a function that turns an I/O error into the error that a folder for spills could not be
    /// made in `path`.
    pub fn folder(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path: PathBuf = path.to_path_buf();
        Self::system(format!("make a folder for spills in {}", path.display()))
    }
}

/// The error that stored bytes are not a valid key, header or row of their table. Its text does not
/// contain the key, because everyone with an access token of scope `read` can see why a job failed.
#[derive(Debug, thiserror::Error)]
#[error("a row of table {table} is damaged: {reason}; check the database with `ebb verify`")]
pub(crate) struct DamagedRow {
    table: String,
    reason: DamageReason,
}

/// Returns the error of a task for an error of the store. If the data are damaged, the task is not
/// retried, because every attempt would meet the damage again.
#[cold]
pub(crate) fn of_store(error: ebb_storage::Error) -> TaskError {
    match error.kind() {
        ErrorKind::Corruption => TaskError::fatal(error),
        _ => TaskError::failed(error),
    }
}

/// Returns the error of a task for an error of a table's rows. As with [`of_store`], damage is not
/// retried.
#[cold]
pub(crate) fn of_table(error: TableError) -> TaskError {
    match error {
        TableError::Store(error) => of_store(error),
        TableError::Damaged(damage) => TaskError::fatal(DamagedRow {
            table: damage.table,
            reason: damage.reason,
        }),
        // A checkpoint of the task, which fails only if the task was cancelled.
        TableError::Ended(ended) => match ended.downcast_ref::<TaskError>() {
            Some(TaskError::Cancelled) => TaskError::Cancelled,
            _ => TaskError::failed(ended.to_string()),
        },
    }
}
