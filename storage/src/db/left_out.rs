//! The runs of a table that merges leave out for a while, because a merge failed to read them, or
//! because a file of them did not open.
//!
//! An I/O error is no damage: the next read of the file may succeed, and a file that is missing may
//! be on a disk that is not mounted. So the manifest records nothing. The run is left out in memory,
//! and merged again after a time that doubles with each failure.
//!
//! A run is also left out when merges of it fail again and again, though its files are whole on the
//! disk. These failures are counted for each run by itself.
//!
//! The waits are measured by [`Clock::elapsed_ms`](crate::Clock::elapsed_ms): a wall clock that is set
//! back would prolong them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
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

/// Merges leave a run out for a while once this many merges or checks of the run in a row were
/// suspicious: they found damage that a second reading, past all caches, did not find, or damage in
/// none of their input files. The memory may be at fault. Below this number, the merge is tried
/// again at once. A sound merge of the run, or a sound check of the suspect file, sets the count
/// back to 0.
const SUSPICIONS_MAX: u64 = 3;

/// The runs of one table that merges leave out for a while, because the last attempt to read or
/// open them failed, and the counts of suspicious merges and checks of each run: see
/// [`SUSPICIONS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    failures: BTreeMap<RunId, Failure>,
    /// The counts of suspicious merges and checks in a row, by run: see [`SUSPICIONS_MAX`]. A run
    /// keeps its count while it is left out, so that it is left out again if the merge that retries
    /// it is suspicious, too.
    suspicions: BTreeMap<RunId, Suspicions>,
}

impl Runs {
    fn forget(&mut self, run: RunId) {
        self.failures.remove(&run);
        self.suspicions.remove(&run);
    }
}

/// The suspicious merges and checks of a run in a row: see [`SUSPICIONS_MAX`].
#[derive(Debug, Default)]
struct Suspicions {
    /// The number of merges and checks of the run that were suspicious in a row.
    count: u64,
    /// The file that the last of the counted merges and checks read wrong; `None` if it is unknown.
    file: Option<PathBuf>,
}

/// The last failure to read a run.
#[derive(Debug)]
struct Failure {
    error: Error,
    wait_ms: u64,
    /// The value of [`Clock::elapsed_ms`](crate::Clock::elapsed_ms) from which on merges may read
    /// the run; 0 after a request for a retry at once.
    retry_ms: u64,
}

impl LeftOut {
    /// Leaves a run out of merges from now on, because of `error`. Returns the time until merges
    /// try again to read it, in milliseconds.
    pub(super) fn add(&self, run: RunId, error: &Error, elapsed_ms: u64) -> u64 {
        let mut all = self.0.lock().unwrap();
        let doubled = |last: &Failure| (2 * last.wait_ms).min(WAIT_MAX_MS);
        let wait_ms = all.failures.get(&run).map_or(WAIT_MIN_MS, doubled);
        let failure = Failure {
            error: error.clone(),
            wait_ms,
            retry_ms: elapsed_ms.saturating_add(wait_ms),
        };
        all.failures.insert(run, failure);
        wait_ms
    }

    /// Counts a suspicious merge or check of these runs (see [`SUSPICIONS_MAX`]). `file` is the
    /// file that was read wrong; `None` if it is unknown. Returns the runs whose count has reached
    /// the limit, and which are to be left out.
    pub(super) fn suspect(
        &self,
        runs: impl IntoIterator<Item = RunId>,
        file: Option<&Path>,
    ) -> Vec<RunId> {
        let mut all = self.0.lock().unwrap();
        let has_reached_max = |run: &RunId| {
            let suspicions = all.suspicions.entry(*run).or_default();
            suspicions.count += 1;
            suspicions.file = file.map(Path::to_path_buf);
            suspicions.count >= SUSPICIONS_MAX
        };
        runs.into_iter().filter(has_reached_max).collect()
    }

    /// Lets merges read these runs again: forgets that the runs could not be read, and sets their
    /// counts of suspicions back to 0.
    pub(super) fn remove(&self, runs: impl IntoIterator<Item = RunId>) {
        let mut all = self.0.lock().unwrap();
        for run in runs {
            all.forget(run);
        }
    }

    /// Called when a check found `file`, a file of the run, whole. Forgets the last failure to read
    /// the run if its error is of this file, and the suspicions of the run if this is the suspect
    /// file.
    pub(super) fn forget_failures_of(&self, run: RunId, file: &Path) {
        let mut all = self.0.lock().unwrap();
        let is_of_file = |failure: &Failure| match &failure.error {
            Error::Io { path, .. } | Error::Corruption { path, .. } => path == file,
            _ => false,
        };
        if all.failures.get(&run).is_some_and(is_of_file) {
            all.failures.remove(&run);
        }
        let suspicions = all.suspicions.get(&run);
        if suspicions.is_some_and(|suspicions| suspicions.file.as_deref() == Some(file)) {
            all.suspicions.remove(&run);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().failures.is_empty()
    }

    /// Returns whether a run is left out of merges, and the time has come to try again to read it.
    pub(super) fn is_due(&self, run: RunId, elapsed_ms: u64) -> bool {
        let all = self.0.lock().unwrap();
        let failure = all.failures.get(&run);
        failure.is_some_and(|failure| failure.retry_ms <= elapsed_ms)
    }

    /// Returns the runs that no merge may read at this time.
    pub(super) fn at(&self, elapsed_ms: u64) -> HashSet<RunId> {
        let for_good = mutation::is(Mutation::LeaveOutForGood);
        let all = self.0.lock().unwrap();
        let is_out = |failure: &Failure| elapsed_ms < failure.retry_ms || for_good;
        let out = all.failures.iter().filter(|(_, failure)| is_out(failure));
        out.map(|(run, _)| *run).collect()
    }

    /// Returns the runs whose last reading failed, also those whose wait is over, but not those
    /// whose wait [`Self::retry_at_once`] ended. Write stalls do not count these runs: otherwise
    /// each retry that fails would hold up the writers of the table.
    pub(super) fn all(&self) -> HashSet<RunId> {
        self.at(0)
    }

    /// Ends the waiting time of all runs that merges leave out because they could not be read. The
    /// next merges may read the runs.
    pub(super) fn retry_at_once(&self) {
        for failure in self.0.lock().unwrap().failures.values_mut() {
            failure.retry_ms = 0;
        }
    }

    /// Returns the first time after `after_ms` at which merges may try again to read a run of the
    /// table that they leave out; `None` if there is no such time. Both times are values of
    /// [`Clock::elapsed_ms`](crate::Clock::elapsed_ms).
    fn next_retry_ms(&self, after_ms: u64) -> Option<u64> {
        let all = self.0.lock().unwrap();
        let times = all.failures.values().map(|failure| failure.retry_ms);
        times.filter(|&retry_ms| retry_ms > after_ms).min()
    }

    /// Returns the error of any one of the runs in [`Self::all`], which could not be read; `None`
    /// if there are none.
    fn error(&self) -> Option<Error> {
        let all = self.0.lock().unwrap();
        let mut failures = all.failures.values();
        let failed = failures.find(|failure| failure.retry_ms > 0);
        failed.map(|failure| failure.error.clone())
    }
}

impl Engine {
    /// Leaves runs out of merges for a while, because a merge or a check failed with `error`, or a
    /// file did not open. Notifies the event listeners.
    pub(super) fn leave_out(
        &self,
        table: &TableCore,
        runs: impl IntoIterator<Item = RunId>,
        error: &Error,
    ) {
        let elapsed_ms = self.elapsed_ms();
        let mut wait_ms = 0;
        for run in runs {
            wait_ms = table.left_out.add(run, error, elapsed_ms).max(wait_ms);
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

    /// Returns the first time after `after_ms` at which merges may try again to read a run that
    /// they leave out, over all tables; `None` if there is no such time. Both times are values of
    /// [`Clock::elapsed_ms`](crate::Clock::elapsed_ms).
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

    #[test]
    fn suspicions_are_counted_for_each_run_by_itself() {
        let left_out = LeftOut::default();
        let is_left_out = |run| left_out.suspect([RunId(run)], None) == [RunId(run)];
        assert!(!is_left_out(1) && !is_left_out(1));
        left_out.remove([RunId(2)]);
        assert!(is_left_out(1) && is_left_out(1));
        assert!(!is_left_out(2) && !is_left_out(2));
        let both = [RunId(1), RunId(2), RunId(3)];
        assert_eq!(left_out.suspect(both, None), [RunId(1), RunId(2)]);
        left_out.remove([RunId(1)]);
        assert!(!is_left_out(1) && is_left_out(2));
    }

    #[test]
    fn only_the_suspect_file_ends_the_suspicions_when_it_is_whole() {
        let left_out = LeftOut::default();
        let (run, file, other) = (RunId(1), Path::new("1.sst"), Path::new("2.sst"));
        let is_left_out = |file| left_out.suspect([run], file) == [run];
        assert!(!is_left_out(Some(file)) && !is_left_out(Some(file)));
        left_out.forget_failures_of(run, other);
        left_out.forget_failures_of(RunId(2), file);
        assert!(is_left_out(Some(file)));
        left_out.forget_failures_of(run, file);
        assert!(!is_left_out(Some(file)) && !is_left_out(None));
        // Any file may be the suspect one.
        left_out.forget_failures_of(run, file);
        assert!(is_left_out(None));
    }
}
