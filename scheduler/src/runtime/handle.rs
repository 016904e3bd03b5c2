//! A handle on a submitted job.

use super::job::attempt_record::AttemptRecord;
use super::job::profile::MeasuredProfile;
use super::job::report::{JobReport, JobStatus};
use super::job_entry::JobEnd;
use super::state::{Shared, State};
use crate::model::JobId;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

/// A handle on a submitted job. Dropping it has no effect on the job.
#[derive(Clone)]
pub struct JobHandle {
    pub(super) id: JobId,
    pub(super) ended: Arc<OnceLock<JobEnd>>,
    pub(super) shared: Arc<Shared>,
}

impl JobHandle {
    /// Returns the job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Waits until the job has ended: until its output is committed, or everything that the job had
    /// written is removed.
    #[must_use]
    pub fn wait(&self) -> JobReport {
        let mut state = self.shared.lock();
        loop {
            if let Some(ended) = self.ended.get() {
                return ended.report.clone();
            }
            state = self
                .shared
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Like [`wait`](Self::wait), for at most `timeout`; returns `None` if the job has not ended by
    /// then. For progress bars.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<JobReport> {
        let state = self.shared.lock();
        let unended = |_: &mut State| self.ended.get().is_none();
        let waited = self
            .shared
            .ended
            .wait_timeout_while(state, timeout, unended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.ended.get().map(|ended| ended.report.clone())
    }

    /// Returns the job's progress.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        let state = self.shared.lock();
        match self.ended.get() {
            Some(ended) => ended.status.clone(),
            // Under the lock a job is either listed or has its end set.
            None => state.jobs[&self.id].status(None),
        }
    }

    /// Returns the cores that the job used on average in the control cycles that began in the last
    /// `span_s` seconds. `None` if the job was submitted less than `span_s` seconds ago or has
    /// ended, or if no such cycle has ended.
    #[must_use]
    pub fn used_lately(&self, span_s: f64) -> Option<f64> {
        let state = self.shared.lock();
        let after_s = self.shared.clock.now_s() - span_s;
        let submitted_s = state.jobs.get(&self.id)?.tracker.job.submitted_s;
        let (used_s, length_s) = state.cycles.used_after(self.id, after_s);
        (submitted_s <= after_s && length_s > 0.0).then(|| used_s / length_s)
    }

    /// Returns the attempts at the job's tasks that have ended, in the order of their ends; at most
    /// the latest ten thousand.
    #[must_use]
    pub fn attempts(&self) -> Vec<AttemptRecord> {
        let state = self.shared.lock();
        let attempts = match self.ended.get() {
            Some(ended) => &ended.attempts,
            None => &state.jobs[&self.id].attempts,
        };
        attempts.iter().cloned().collect()
    }

    /// Returns the totals over the job's finished tasks, as an estimate for the next execution of
    /// the same job.
    #[must_use]
    pub fn measured(&self) -> MeasuredProfile {
        let state = self.shared.lock();
        match self.ended.get() {
            Some(ended) => ended.measured,
            None => state.jobs[&self.id].measured(),
        }
    }

    /// Cancels the job: its tasks stop at their next checkpoint, then its output is aborted.
    /// Returns false, without any effect, if the output is being committed, or if the job is
    /// stopping already or has ended.
    pub fn cancel(&self) -> bool {
        self.shared.cancel(self.id)
    }
}
