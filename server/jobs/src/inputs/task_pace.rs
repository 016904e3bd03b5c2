//! The pace of a task's reads among keys without rows.

use std::fmt;
use std::sync::Arc;

use ebb_scheduler::runtime::Checkpoint;
use ebb_tables::read::{Ended, Pace};

/// Calls a checkpoint of the task while a search passes keys without rows: deleted ones, or in a
/// snapshot those that were written later. So the task is paced and can be cancelled there, and does
/// not count as stalled.
pub(super) struct TaskPace<'c>(pub(super) Checkpoint<'c>);

impl fmt::Debug for TaskPace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPace").finish_non_exhaustive()
    }
}

impl Pace for TaskPace<'_> {
    fn passed(&self) -> Result<(), Ended> {
        (self.0)().map_err(|error| -> Ended { Arc::new(error) })
    }
}
