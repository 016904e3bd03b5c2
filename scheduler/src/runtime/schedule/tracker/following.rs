//! The stages of a job that follows others. It waits until they have succeeded; then its input,
//! which is their output, is split. No policy sees it before.
//!
//! ```text
//!   following ──all succeeded──> splitting ──ok──> tasks
//!       └── one failed ──> stopping <── failed ──┘
//! ```

use super::{Stage, Tracker};
use crate::model::{Job, JobId};
use crate::runtime::error::TaskError;
use crate::runtime::job::profile::JobProfile;
use crate::runtime::job::report::Outcome;
use crate::runtime::schedule::task_set::TaskSet;

impl Tracker {
    /// Creates a job that starts after other jobs, at least one, which later calls of
    /// [`Tracker::follow`] name. The number of its maps is not known yet.
    pub fn following(job: Job, reduces: u32, profile: &JobProfile) -> Self {
        Self {
            stage: Stage::Following,
            ..Self::new(job, 0, reduces, profile)
        }
    }

    /// Makes the job wait for another one.
    pub fn follow(&mut self, other: JobId) {
        self.follows.insert(other);
    }

    /// Returns the jobs that this one still waits for.
    pub fn follows(&self) -> impl Iterator<Item = JobId> {
        self.follows.iter().copied()
    }

    /// Records the end of another job; `failure_reason` is `None` if that job succeeded. Once all
    /// jobs that this one follows have succeeded, its input is split; when one has failed or was
    /// cancelled, this job fails too. Returns whether either happened.
    pub fn other_ended(&mut self, other: JobId, failure_reason: Option<&str>) -> bool {
        if self.stage != Stage::Following || !self.follows.remove(&other) {
            return false;
        }
        match failure_reason {
            Some(failure_reason) => self.stop(Outcome::Failed {
                cause: format!("{other}, which this job follows, {failure_reason}"),
            }),
            None if self.follows.is_empty() => self.stage = Stage::Splitting { claimed: false },
            None => return false,
        }
        true
    }

    /// Records the result of the split: the number of maps and the estimated CPU time of a task, or
    /// an error. An error makes the job fail. Has no effect if the job was stopped during the
    /// split.
    pub fn split_done(&mut self, split: Result<(u32, JobProfile), &TaskError>) {
        self.is_splitting = false;
        match split {
            _ if self.stage != (Stage::Splitting { claimed: true }) => {}
            Ok((maps, profile)) => {
                self.maps = TaskSet::new(maps, profile.map_task_cpu_s);
                self.reduces = TaskSet::new(self.reduces.total(), profile.reduce_task_cpu_s);
                self.stage = Stage::Tasks;
                self.commit_when_done();
            }
            Err(error) => self.stop(Outcome::Failed {
                cause: format!("splitting the input: {error}"),
            }),
        }
    }
}
