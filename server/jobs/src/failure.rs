//! The class of a failure, which decides the exit code of a command and the status of a
//! response.

use std::error::Error;
use std::io;
use std::iter::successors;

use ebb_model::schema::SchemaError;
use ebb_scheduler::runtime::{SubmitError, TaskError};
use ebb_scheduler::sim::scenario::ScenarioError;
use ebb_storage::ErrorKind;
use ebb_tables::CatalogError;
use ebb_tables::lookup::Unknown;
use ebb_tables::read::Damage;
use ebb_text::FileError;
use serde::{Deserialize, Serialize};

use super::error::{DamagedRow, HistoryError, JobError};
use super::records::InvalidInput;
use super::request::RequestError;

/// The class of a failure, by what the caller can do: change the request, retry, repair the
/// database, or report a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The request or the input has to change.
    Invalid,
    /// A table, a snapshot, a job or another object that the request names does not exist. A missing input file
    /// is [`Other`](Self::Other): it belongs to no database.
    NotFound,
    /// Another process has the database open.
    Locked,
    /// A file or a row of the database is damaged.
    Corrupt,
    /// The disk is full, or a quota is exceeded.
    DiskFull,
    /// The node accepts no more jobs, because it shuts down, or because hanging tasks hold its threads
    /// or memory.
    Closed,
    /// Any other failure.
    Other,
}

impl Failure {
    /// Returns the class of the first error that has one, in the chain from `error` to its root
    /// cause; [`Other`](Self::Other) if none has a class.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        Self::of_chain(error).unwrap_or(Self::Other)
    }

    /// Returns the class of the first error that has one, in the chain from `error` to its root
    /// cause; `None` if none has a class.
    fn of_chain(error: &(dyn Error + 'static)) -> Option<Self> {
        successors(Some(error), |&cause| cause.source()).find_map(Self::of_cause)
    }

    /// Returns the class of an error regardless of its causes; `None` if the error itself has
    /// no class. The error inside a [`TaskError`] counts as a part of it, with all its causes:
    /// callers that walk along [`Error::source`] do not reach these.
    pub fn of_cause(cause: &(dyn Error + 'static)) -> Option<Self> {
        if cause.is::<Unknown>() {
            return Some(Self::NotFound);
        }
        let is_row = matches!(cause.downcast_ref(), Some(HistoryError::Row { .. }));
        if is_row || cause.is::<Damage>() || cause.is::<DamagedRow>() {
            return Some(Self::Corrupt);
        }
        let is_refused = matches!(
            cause.downcast_ref(),
            Some(JobError::Ended { .. } | JobError::State(_) | JobError::Forbidden(_))
        );
        let is_request = is_refused || cause.is::<RequestError>();
        if is_request || cause.is::<InvalidInput>() || cause.is::<ScenarioError>() {
            return Some(Self::Invalid);
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
            return full.contains(&error.kind()).then_some(Self::DiskFull);
        }
        if let Some(FileError::Malformed { .. }) = cause.downcast_ref() {
            return Some(Self::Invalid);
        }
        match cause.downcast_ref::<SubmitError>() {
            Some(SubmitError::Goal(_)) => return Some(Self::Invalid),
            Some(refused) if refused.is_transient() => return Some(Self::Closed),
            _ => {}
        }
        if let Some(
            TaskError::Failed(inner) | TaskError::Invalid(inner) | TaskError::Fatal(inner),
        ) = cause.downcast_ref()
        {
            return Self::of_chain(&**inner);
        }
        if let Some(
            CatalogError::Corrupt { .. } | CatalogError::Schema(SchemaError::Unreadable(_)),
        ) = cause.downcast_ref()
        {
            return Some(Self::Corrupt);
        }
        let error: &ebb_storage::Error = cause.downcast_ref()?;
        Some(match error.kind() {
            ErrorKind::InvalidRequest => Self::Invalid,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Locked => Self::Locked,
            ErrorKind::Corruption => Self::Corrupt,
            ErrorKind::DiskFull => Self::DiskFull,
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_publish::target::TargetError;

    /// Regression: the error of a node on which hanging tasks hold all memory had no class, so the
    /// status of its response was 409.
    #[test]
    fn a_node_that_accepts_no_jobs_is_closed_whatever_the_reason() {
        for refused in [
            SubmitError::ShuttingDown,
            SubmitError::LeftBehind { threads: 64 },
        ] {
            assert_eq!(Failure::of(&JobError::from(refused)), Failure::Closed);
        }
    }

    /// Regression: the causes of the error inside a task's error did not count, so a full disk was
    /// [`Failure::Other`] if the error of the catalog or of a target was around it.
    #[test]
    fn the_error_inside_of_a_tasks_error_has_the_class_of_its_causes() {
        let of_store = ebb_storage::Error::DiskFull { path: "db".into() };
        let of_target = TargetError::DiskFull(io::ErrorKind::StorageFull.into());
        for error in [
            TaskError::failed(CatalogError::Store(of_store)),
            TaskError::fatal(of_target),
        ] {
            let failure = Failure::of_cause(&error);
            assert_eq!(failure, Some(Failure::DiskFull), "{error}");
            assert_eq!(Failure::of(&JobError::from(error)), Failure::DiskFull);
        }
        let without_class = TaskError::failed(io::Error::other("anything"));
        assert_eq!(Failure::of_cause(&without_class), None);
    }
}
