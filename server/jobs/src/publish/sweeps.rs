//! The sweeps of a publication before its commits: each removes what earlier publishers left of a table.
//!
//! The first task of a publication sweeps, while the others already read rows: a sweep removes only objects that can no
//! longer be committed, so nothing waits for it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_publish::commit::sweep_unsettled;
use ebb_scheduler::runtime::{Checkpoint, TaskError};

use super::job::{PublicationJob, lock};

/// The sweeps of one start of a publication.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    /// True once a task sweeps, or has swept.
    have_begun: AtomicBool,
    /// The versions at which tables were swept, by the numbers of the tables.
    versions: Mutex<BTreeMap<u32, u64>>,
}

impl Sweeps {
    /// Returns the version at which a table was swept; `None` if it was not, or not to the end.
    pub(super) fn version(&self, table: u32) -> Option<u64> {
        lock(&self.versions).get(&table).copied()
    }
}

impl PublicationJob {
    /// Sweeps each table that is still to be published: removes the files of publishers that can no longer commit,
    /// and of publications that an earlier one has removed. Does nothing if another task does it, or has done it.
    ///
    /// # Errors
    /// If a request to the target fails, if metadata is damaged, or if `checkpoint` fails. Another attempt of a task
    /// then begins again.
    pub(super) fn sweep_once(&self, checkpoint: Checkpoint<'_>) -> Result<(), TaskError> {
        if self.sweeps.have_begun.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let swept = self.sweep(checkpoint);
        if swept.is_err() {
            self.sweeps.have_begun.store(false, Ordering::Relaxed);
        }
        swept
    }

    fn sweep(&self, checkpoint: Checkpoint<'_>) -> Result<(), TaskError> {
        let ended = Cell::new(None);
        let goes_on = || match checkpoint() {
            Ok(()) => true,
            Err(error) => {
                ended.set(Some(error));
                false
            }
        };
        let tables = (0..).zip(&self.tables);
        // Readers may be reading the publications that an earlier start has removed from the other tables.
        for (number, table) in tables.filter(|(_, table)| !table.is_published) {
            let swept = sweep_unsettled(&self.target, &table.name, &goes_on);
            match swept.map_err(TaskError::failed)? {
                Some(version) => lock(&self.sweeps.versions).insert(number, version),
                None => return Err(ended.take().unwrap_or(TaskError::Cancelled)),
            };
        }
        Ok(())
    }
}
