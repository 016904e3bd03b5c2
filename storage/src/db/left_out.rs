//! The runs of a table that merges leave out for a while, because a merge failed to read them, or
//! because a file of them did not open.
//!
//! An I/O error is no damage: the next read of the file may succeed, and a file that is missing may
//! be on a disk that is not mounted. So the manifest records nothing. The run is left out in memory,
//! and merged again after a time that doubles with each failure.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use super::events::Event;
use super::{Engine, TableCore};
use crate::error::Error;
use crate::key::RunId;
use crate::mutation::{self, Mutation};
use crate::sync::Mutex;

/// The time for which merges leave a run out after the first failure to read it, in milliseconds.
/// Each further failure doubles it.
const WAIT_MIN_MS: u64 = 1_000;
/// The longest time for which merges leave a run out before they try to read it again, in
/// milliseconds.
const WAIT_MAX_MS: u64 = 600_000;

/// The runs of one table that could not be read, or opened, at the last attempt. Merges leave each
/// of them out for a while.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Mutex<BTreeMap<RunId, Failure>>);

/// The last failure to read a run.
#[derive(Debug)]
struct Failure {
    error: Error,
    wait_ms: u64,
    /// The time from which on the run may be merged, in milliseconds since the Unix epoch; 0 after
    /// a request for a retry at once.
    retry_ms: u64,
}

impl LeftOut {
    /// Leaves a run out of merges from now on, because of `error`. Returns the time until merges
    /// try again to read it, in milliseconds.
    pub(super) fn add(&self, run: RunId, error: &Error, now_ms: u64) -> u64 {
        let mut all = self.0.lock().unwrap();
        let doubled = |last: &Failure| (2 * last.wait_ms).min(WAIT_MAX_MS);
        let wait_ms = all.get(&run).map_or(WAIT_MIN_MS, doubled);
        let failure = Failure {
            error: error.clone(),
            wait_ms,
            retry_ms: now_ms.saturating_add(wait_ms),
        };
        all.insert(run, failure);
        wait_ms
    }

    /// Lets merges read these runs again, and forgets that they could not be read.
    pub(super) fn remove(&self, runs: impl IntoIterator<Item = RunId>) {
        let mut all = self.0.lock().unwrap();
        for run in runs {
            all.remove(&run);
        }
    }

    /// Forgets the failure of a run if it was a failure to read this file, which was found whole
    /// since.
    pub(super) fn forget_failure_of(&self, run: RunId, file: &Path) {
        let mut all = self.0.lock().unwrap();
        let is_of_file = |failure: &Failure| match &failure.error {
            Error::Io { path, .. } | Error::Corruption { path, .. } => path == file,
            _ => false,
        };
        if all.get(&run).is_some_and(is_of_file) {
            all.remove(&run);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    /// Returns whether a run is left out of merges, and the time has come to try again to read it.
    pub(super) fn is_due(&self, run: RunId, now_ms: u64) -> bool {
        let all = self.0.lock().unwrap();
        let failure = all.get(&run);
        failure.is_some_and(|failure| failure.retry_ms <= now_ms)
    }

    /// Returns the runs that no merge may read at this time.
    pub(super) fn at(&self, now_ms: u64) -> HashSet<RunId> {
        let for_good = mutation::is(Mutation::LeaveOutForGood);
        let all = self.0.lock().unwrap();
        let is_out = |failure: &Failure| now_ms < failure.retry_ms || for_good;
        let out = all.iter().filter(|(_, failure)| is_out(failure));
        out.map(|(run, _)| *run).collect()
    }

    /// Returns the runs that could not be read, also those whose wait is over, but not those whose
    /// wait [`Self::retry_at_once`] ended. Write stalls do not count these runs: otherwise each retry
    /// that fails would hold up the writers of the table.
    pub(super) fn all(&self) -> HashSet<RunId> {
        self.at(0)
    }

    /// Ends the waiting time of all runs that merges leave out because they could not be read. The
    /// next merges may read the runs.
    pub(super) fn retry_at_once(&self) {
        for failure in self.0.lock().unwrap().values_mut() {
            failure.retry_ms = 0;
        }
    }

    /// Returns the first time after `after_ms` at which merges may try again to read a run of
    /// the table that they leave out.
    fn next_retry_ms(&self, after_ms: u64) -> Option<u64> {
        let all = self.0.lock().unwrap();
        let times = all.values().map(|failure| failure.retry_ms);
        times.filter(|&retry_ms| retry_ms > after_ms).min()
    }

    /// Returns the error of any one of the runs in [`Self::all`], which could not be read; `None`
    /// if there are none.
    fn error(&self) -> Option<Error> {
        let all = self.0.lock().unwrap();
        let failed = all.values().find(|failure| failure.retry_ms > 0);
        failed.map(|failure| failure.error.clone())
    }
}

impl Engine {
    /// Leaves runs out of merges for a while, because they could not be read.
    pub(super) fn leave_out(
        &self,
        table: &TableCore,
        runs: impl IntoIterator<Item = RunId>,
        error: &Error,
    ) {
        let now_ms = self.now_ms();
        let mut wait_ms = 0;
        for run in runs {
            wait_ms = table.left_out.add(run, error, now_ms).max(wait_ms);
        }
        self.counters.merge_read_failures.add(1);
        // This thread may begin a long merge. Another one wakes for the retry then.
        self.wake_compaction(|| true);
        self.events.tell(Event::LeftOut {
            keyspace: &table.keyspace,
            table: &table.name,
            cause: &error.to_string(),
            retry_after: Duration::from_millis(wait_ms),
        });
    }

    /// Returns the first time after `after_ms` at which merges may try again to read a
    /// run that they leave out, over all tables.
    pub(super) fn next_retry_ms(&self, after_ms: u64) -> Option<u64> {
        let tables = self.tables().into_iter();
        let times = tables.filter_map(|table| table.left_out.next_retry_ms(after_ms));
        times.min()
    }

    /// Returns the error of any one run that could not be read, in any table; `None` if there is
    /// none.
    pub(super) fn left_out_error(&self) -> Option<Error> {
        let mut tables = self.tables().into_iter();
        tables.find_map(|table| table.left_out.error())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_ten_minutes_and_begins_anew_after_a_success() {
        let left_out = LeftOut::default();
        let error = Error::InvalidRequest("a test".into());
        let add = || left_out.add(RunId(7), &error, 5_000) / 1_000;
        let waits: Vec<_> = (0..12).map(|_| add()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        left_out.remove([RunId(7)]);
        assert_eq!(add(), 1);
    }
}
