//! What tasks note beside their rows.

use crate::runtime::error::TaskError;

/// Facts that the tasks of a job gather while they map and reduce, such as which columns
/// any record had. The job's output looks at them when it commits.
///
/// Tasks on threads of this process share one object. A process that runs tasks has an
/// object of its own; what it noted comes here with the end of each task, before the
/// task's rows count. So at the commit the notes of all successful tasks are here. Those of
/// other attempts may be here too.
pub trait TaskNotes: Send + Sync {
    /// All that was noted in this process so far, by any task. It is sent with each task's
    /// end, so it should be short.
    fn encode(&self) -> Vec<u8>;

    /// Adds what [`TaskNotes::encode`] gave in another process. The same notes may come
    /// several times.
    ///
    /// # Errors
    /// When the bytes are not of this job; the attempt fails.
    fn add(&self, bytes: &[u8]) -> Result<(), TaskError>;
}
