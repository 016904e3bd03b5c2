//! The pace of a task's reads, among keys without rows and in rows with long decimals.

use std::fmt;
use std::sync::Arc;

use ebb_scheduler::runtime::{Checkpoint, TaskError};
use ebb_tables::read::{Ended, Pace, ValueWork};

/// Calls a checkpoint of the task while a search passes keys without rows (deleted ones, or in a
/// snapshot those that were written later), and before long work on values. So the task is paced and
/// can be cancelled there, and does not count as stalled.
pub(super) struct TaskPace<'c> {
    checkpoint: Checkpoint<'c>,
    work: ValueWork,
}

impl fmt::Debug for TaskPace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPace").finish_non_exhaustive()
    }
}

impl<'c> TaskPace<'c> {
    pub(super) fn new(checkpoint: Checkpoint<'c>) -> Self {
        Self {
            checkpoint,
            work: ValueWork::default(),
        }
    }

    pub(super) fn checkpoint(&self) -> Result<(), TaskError> {
        (self.checkpoint)()
    }

    /// Calls the checkpoint before work on values, which takes as long as comparing `bytes` bytes, if it
    /// takes long together with the earlier calls of this function: see [`ValueWork::charge`].
    pub(super) fn charge(&self, bytes: usize) -> Result<(), Ended> {
        self.work.charge(bytes, self)
    }
}

impl Pace for TaskPace<'_> {
    fn passed(&self) -> Result<(), Ended> {
        self.checkpoint()
            .map_err(|error| -> Ended { Arc::new(error) })
    }
}

#[cfg(test)]
mod tests;
