//! A lease as a job: its tasks are the threads that work under it.
//!
//! Nothing of it is handed to workers, tried again, committed or aborted. It exists until its owner
//! releases it. It counts as pending work while a thread is in it, and for a grace period after that.
//! So a thread that comes back soon still finds its share; a share that is unused for longer goes to
//! others.

use super::{Stage, Tracker};
use crate::model::{Job, TaskId, TaskKind};
use crate::runtime::job::profile::JobProfile;
use crate::runtime::job::report::Outcome;
use crate::runtime::pacing::attempt_state::AttemptState;
use crate::runtime::schedule::live_view::LiveJob;
use std::sync::Arc;

/// The state of a lease, except for its tasks, which stand for the threads in it.
#[derive(Debug)]
pub(super) struct Lease {
    /// Estimated CPU time of all work under the lease, in seconds.
    cpu_s: f64,
    /// The time for which the lease keeps its share without a thread, in seconds.
    grace_s: f64,
    /// The start of the first of the consecutive control cycles that found no thread in the lease,
    /// in seconds of the runtime's time; `None` if a thread has been in the lease since the last
    /// cycle started, or if none has started.
    idle_since_s: Option<f64>,
    /// True if the lease needs a share in this cycle.
    is_in_use: bool,
}

impl Lease {
    /// Starts the control cycle at `now_s`, in seconds of the runtime's time, with `threads` threads in
    /// the lease.
    pub fn start_cycle(&mut self, threads: u32, now_s: f64) {
        let since_s = self.idle_since_s.unwrap_or(now_s);
        self.idle_since_s = (threads == 0).then_some(since_s);
        // A time, not a number of cycles: submissions and ends of jobs start cycles early.
        self.is_in_use = threads > 0 || now_s - since_s < self.grace_s;
    }
}

impl Tracker {
    /// Creates a lease for work of about `cpu_s` seconds of CPU. It keeps its share for `grace_s`
    /// seconds without a thread.
    pub fn leased(job: Job, cpu_s: f64, grace_s: f64) -> Self {
        Self {
            stage: Stage::Tasks,
            lease: Some(Lease {
                cpu_s,
                grace_s,
                idle_since_s: None,
                is_in_use: true,
            }),
            ..Self::new(job, 0, 0, &JobProfile::default())
        }
    }

    pub fn is_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Adds a thread to the lease. Returns the task that stands for the thread, the attempt's
    /// number and its state; `None` if the lease was stopped or released, or if this is a job and
    /// no lease.
    pub fn enter(&mut self, now_s: f64) -> Option<(TaskId, u32, Arc<AttemptState>)> {
        let lease = self.lease.as_mut()?;
        if self.stage != Stage::Tasks {
            return None;
        }
        (lease.idle_since_s, lease.is_in_use) = (None, true);
        let (index, attempt, state) = self.maps.enter(now_s);
        let task = TaskId {
            job: self.job.id,
            kind: TaskKind::Map,
            index,
        };
        Some((task, attempt, state))
    }

    /// Removes a thread from the lease.
    pub fn leave(&mut self, task: TaskId, attempt: u32) {
        if self.is_lease() {
            self.maps.leave(task.index, attempt);
        }
    }

    /// Ends the lease: as succeeded, unless it was stopped before.
    pub fn release(&mut self) {
        self.stage = Stage::Ended;
        self.outcome.get_or_insert(Outcome::Succeeded);
    }

    /// Returns the lease as a job for the policy: one running task for each thread, at least one,
    /// each with an equal part of the work and of the CPU time used. `None` if the lease was
    /// stopped or released, or if no thread was in it during the grace period.
    pub(super) fn live_lease(&self, lease: &Lease) -> Option<LiveJob> {
        let threads = self.maps.running().max(1);
        let used_s = self.maps.used_cpu_s();
        let per_thread = |cpu_s: f64| cpu_s / f64::from(threads);
        (self.stage == Stage::Tasks && lease.is_in_use).then(|| LiveJob {
            job: self.job,
            pending_maps: 0,
            pending_reduces: 0,
            done_maps: 0,
            running: vec![(TaskKind::Map, per_thread(used_s)); threads as usize],
            speculative: 0,
            map_cpu_s: per_thread(used_s.max(lease.cpu_s)),
            reduce_cpu_s: self.reduces.mean_cpu_s(),
        })
    }
}
