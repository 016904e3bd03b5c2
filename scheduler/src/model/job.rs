//! A job as a user submits it, with its completion time goal.

use crate::ordered_f64::OrderedF64;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Identifies a job. Smaller ids were submitted earlier or at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job-{}", self.0)
    }
}

/// The times and the weight of a submitted job. The runtime and the simulator keep its tasks and
/// data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Job {
    /// Identifier; also breaks ties between jobs that were submitted at the same time.
    pub id: JobId,
    /// Submission time, in seconds on the clock of the runtime or of the simulation.
    pub submitted_s: f64,
    /// The completion time goal, in seconds on the clock of `submitted_s`, so not relative to the
    /// submission. `None`: as early as possible, behind the jobs that have a goal.
    pub goal_s: Option<f64>,
    /// Weight in fair sharing, relative to other jobs; positive, usually 1. Only the policies
    /// that share by weight read it.
    pub weight: f64,
}

impl Job {
    /// Creates a job of weight 1.
    #[must_use]
    pub const fn new(id: JobId, submitted_s: f64, goal_s: Option<f64>) -> Self {
        Self {
            id,
            submitted_s,
            goal_s,
            weight: 1.0,
        }
    }

    /// Returns the sort key for jobs by age: the oldest job has the smallest key, and among
    /// equally old jobs the one with the lowest id.
    pub(crate) const fn age(&self) -> (OrderedF64, JobId) {
        (OrderedF64(self.submitted_s), self.id)
    }

    /// Returns whether the job met its goal if it finished at `finished_s` (`None`: it did not
    /// finish, which misses the goal). Returns `None` for a job without a goal.
    #[must_use]
    pub fn met(&self, finished_s: Option<f64>) -> Option<bool> {
        let goal_s = self.goal_s?;
        Some(finished_s.is_some_and(|finished_s| finished_s <= goal_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_job_misses_its_goal_and_a_job_without_a_goal_has_no_result() {
        let mut job = Job::new(JobId(1), 0.0, Some(10.0));
        assert_eq!(job.met(Some(10.0)), Some(true));
        assert_eq!(job.met(Some(10.5)), Some(false));
        assert_eq!(job.met(None), Some(false));
        job.goal_s = None;
        assert_eq!(job.met(Some(1.0)), None);
    }
}
