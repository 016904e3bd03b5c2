//! Notes of tasks: facts that they gather in addition to their rows.

use crate::runtime::error::TaskError;

/// Facts that the tasks of a job gather while they map and reduce, such as the columns that occur
/// in any record. The job's output reads them when it commits.
///
/// Tasks on threads of this process share one object. A process that runs tasks has an object of
/// its own; its notes are added to the object of this process at the end of each task, before the
/// task's rows count. So at the commit the object of this process has the notes of all successful
/// tasks, and perhaps those of other attempts.
pub trait TaskNotes: Send + Sync {
    /// Returns all facts that tasks in this process have gathered so far, as bytes for
    /// [`TaskNotes::add`] in another process. They are sent at the end of each task, so they
    /// should be short.
    fn encode(&self) -> Vec<u8>;

    /// Adds facts that [`TaskNotes::encode`] returned in another process. The same facts may be
    /// added several times, because that process sends all of its facts after each task.
    ///
    /// # Errors
    /// If the bytes are no notes of this job; the attempt fails.
    fn add(&self, bytes: &[u8]) -> Result<(), TaskError>;
}
