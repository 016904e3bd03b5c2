//! The pace of a task's reads, among keys without rows and in rows with long decimals.

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

impl TaskPace<'_> {
    /// Calls the checkpoint before a long decimal is decoded, which takes as long as comparing `bytes`
    /// bytes. A row may have thousands of such decimals, each of which takes milliseconds.
    pub(super) fn charge(&self, bytes: usize) -> Result<(), Ended> {
        /// The cost from which a checkpoint takes much less time than the decimal.
        const BYTES_MIN: usize = 1 << 16;
        if bytes < BYTES_MIN {
            return Ok(());
        }
        self.passed()
    }
}

impl Pace for TaskPace<'_> {
    fn passed(&self) -> Result<(), Ended> {
        (self.0)().map_err(|error| -> Ended { Arc::new(error) })
    }
}
