//! Accessors of a job: its state, its progress, and the work that it could run.

use super::{Stage, Tracker};
use crate::model::TaskKind;
use crate::runtime::job::counters::Counters;
use crate::runtime::job::report::{JobState, Outcome};
use crate::runtime::schedule::live_view::LiveJob;
use crate::runtime::schedule::task_set::TaskSet;

impl Tracker {
    /// Returns the result of the job; `None` if the job has not ended.
    pub fn ended(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|_| self.stage == Stage::Ended)
    }

    /// Returns whether the job failed because of a record without the required form.
    pub fn has_invalid_input(&self) -> bool {
        self.invalid_input
    }

    /// Returns the error of a job that has failed or is about to; `None` for any other job.
    pub fn cause(&self) -> Option<&str> {
        match &self.outcome {
            Some(Outcome::Failed { cause }) => Some(cause),
            _ => None,
        }
    }

    pub fn state(&self) -> JobState {
        let started = if self.is_lease() {
            self.running() > 0
        } else {
            self.maps.has_started() || self.reduces.has_started()
        };
        match (self.stage, &self.outcome) {
            (Stage::Tasks, _) if started => JobState::Running,
            (Stage::Following | Stage::Splitting { .. } | Stage::Tasks, _) => JobState::Waiting,
            (Stage::Committing { .. }, _) => JobState::Committing,
            (Stage::Stopping { .. }, _) => JobState::Stopping,
            (Stage::Ended, Some(Outcome::Succeeded)) => JobState::Succeeded,
            (Stage::Ended, Some(Outcome::Cancelled)) => JobState::Cancelled,
            (Stage::Ended, _) => JobState::Failed,
        }
    }

    pub fn running(&self) -> u32 {
        self.maps.running() + self.reduces.running()
    }

    /// Returns the number of running attempts on the floor: in the ordinary class, with a high
    /// nice value.
    pub fn running_on_floor(&self) -> u32 {
        self.maps.running_on_floor() + self.reduces.running_on_floor()
    }

    /// Returns the number of running attempts that were stopped, and end at their next
    /// checkpoint.
    pub fn stopped(&self) -> u32 {
        let stopped = self.attempt_states().filter(|state| state.is_stopped());
        stopped.count() as u32
    }

    /// Returns the number of finished tasks and the total number of tasks; zeros for a lease,
    /// which has no number of tasks.
    pub fn progress(&self, kind: TaskKind) -> (u32, u32) {
        if self.is_lease() {
            return (0, 0);
        }
        let set = match kind {
            TaskKind::Map => &self.maps,
            TaskKind::Reduce => &self.reduces,
        };
        (set.done, set.total())
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the job in the policy's view. Returns `None` if the job has no tasks at present (it
    /// waits for other jobs or for its splits, or its tasks are done) or stops, and for a lease
    /// that needs no share.
    pub fn live(&self) -> Option<LiveJob> {
        if let Some(lease) = &self.lease {
            return self.live_lease(lease);
        }
        let running = |set: &TaskSet, kind| {
            let used_s = set.running_cpu_s().into_iter();
            used_s.map(|used_s| (kind, used_s)).collect::<Vec<_>>()
        };
        let has_straggler = |set: &TaskSet| set.straggler.is_some();
        (self.stage == Stage::Tasks).then(|| LiveJob {
            job: self.job,
            pending_maps: self.maps.pending.len() as u32,
            pending_reduces: self.reduces.pending.len() as u32,
            done_maps: self.maps.done,
            running: [
                running(&self.maps, TaskKind::Map),
                running(&self.reduces, TaskKind::Reduce),
            ]
            .concat(),
            speculative: u32::from(has_straggler(&self.maps) || has_straggler(&self.reduces)),
            map_cpu_s: self.maps.mean_cpu_s(),
            reduce_cpu_s: self.reduces.mean_cpu_s(),
        })
    }
}
