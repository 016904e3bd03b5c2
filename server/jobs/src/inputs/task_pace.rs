//! The pace of a task's reads, among keys without rows and in rows with long decimals.

use std::fmt;
use std::sync::Arc;

use ebb_scheduler::runtime::{Checkpoint, TaskError};
use ebb_tables::read::{Ended, Pace, ValueWork};

/// The pace of a task: calls a checkpoint of the task while a search passes keys without rows (deleted ones,
/// or those that were written after the snapshot), and before long work on values. At a checkpoint the
/// runtime can slow or cancel the task, and sees that it is not stalled.
pub(crate) struct TaskPace<'c> {
    checkpoint: Checkpoint<'c>,
    work: ValueWork,
}

impl fmt::Debug for TaskPace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPace").finish_non_exhaustive()
    }
}

impl<'c> TaskPace<'c> {
    pub(crate) fn new(checkpoint: Checkpoint<'c>) -> Self {
        Self {
            checkpoint,
            work: ValueWork::default(),
        }
    }

    pub(super) fn checkpoint(&self) -> Result<(), TaskError> {
        (self.checkpoint)()
    }

    /// Reports work on values before it is done. The work takes as long as a comparison of `bytes`
    /// bytes. Calls the checkpoint if the work since the last such call, this work included, takes
    /// long: see [`ValueWork::charge`].
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Ended> {
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
