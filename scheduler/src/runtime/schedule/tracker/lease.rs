//! A lease as a job: its tasks are the threads that work under it, as long as they do.
//!
//! Nothing of it is handed to workers, tried again, committed or aborted; it is there
//! until its owner lets it go. It counts as work to be done while a thread is in, and
//! for the control cycle after that. So a thread that comes back soon finds its share
//! still there; a share that is unused for longer goes to others.

use super::{Stage, Tracker};
use crate::model::{Job, TaskId, TaskKind};
use crate::runtime::job::profile::JobProfile;
use crate::runtime::job::report::Outcome;
use crate::runtime::pacing::attempt_state::AttemptState;
use crate::runtime::schedule::live_view::LiveJob;
use std::sync::Arc;

/// What is remembered of a lease beside its tasks.
#[derive(Debug)]
pub(super) struct Lease {
    /// CPU time that all of it is believed to take, in seconds.
    cpu_s: f64,
    /// A thread came in since the last control cycle began.
    entered: bool,
    /// It is to have a share in this cycle.
    is_wanted: bool,
}

impl Lease {
    /// A control cycle begins, with so many threads in.
    pub fn start_cycle(&mut self, threads: u32) {
        let entered = std::mem::take(&mut self.entered);
        self.is_wanted = entered || threads > 0;
    }
}

impl Tracker {
    /// A lease for work that is believed to take `cpu_s` seconds of CPU.
    pub fn leased(job: Job, cpu_s: f64) -> Self {
        Self {
            stage: Stage::Tasks,
            lease: Some(Lease {
                cpu_s,
                entered: true,
                is_wanted: true,
            }),
            ..Self::new(job, 0, 0, &JobProfile::default())
        }
    }

    pub fn is_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// A thread comes in; `None` when the lease was cancelled, or is none.
    pub fn enter(&mut self, now_s: f64) -> Option<(TaskId, u32, Arc<AttemptState>)> {
        let lease = self.lease.as_mut()?;
        if self.stage != Stage::Tasks {
            return None;
        }
        (lease.entered, lease.is_wanted) = (true, true);
        let (index, attempt, state) = self.maps.enter(now_s);
        let task = TaskId {
            job: self.job.id,
            kind: TaskKind::Map,
            index,
        };
        Some((task, attempt, state))
    }

    /// A thread that came in is gone.
    pub fn leave(&mut self, task: TaskId, attempt: u32) {
        if let Some(lease) = &mut self.lease {
            lease.entered = true;
            self.maps.leave(task.index, attempt);
        }
    }

    /// The owner lets the lease go: it has ended, well unless it was stopped before.
    pub fn release(&mut self) {
        self.stage = Stage::Ended;
        self.outcome.get_or_insert(Outcome::Succeeded);
    }

    /// A lease as a policy sees it: work in as many tasks as threads are in, all of
    /// them as far as all the work is.
    pub(super) fn live_lease(&self, lease: &Lease) -> Option<LiveJob> {
        let threads = self.maps.running().max(1);
        let used_s = self.maps.used_cpu_s();
        let per_thread = |cpu_s: f64| cpu_s / f64::from(threads);
        (self.stage == Stage::Tasks && lease.is_wanted).then(|| LiveJob {
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
