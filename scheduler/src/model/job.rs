//! A job: what a user submits, and by when it should be done.

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

/// A submitted job, as far as time is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Job {
    /// Who it is.
    pub id: JobId,
    /// When it was submitted, in seconds.
    pub submitted_s: f64,
    /// The completion time goal in absolute seconds (not after submission).
    /// `None`: as early as possible, behind the jobs that have a goal.
    pub goal_s: Option<f64>,
    /// Its part of a fair share, relative to other jobs; positive, usually 1.
    /// Only the policies that share by weight look at it.
    pub weight: f64,
}

impl Job {
    /// A job of weight 1.
    #[must_use]
    pub const fn new(id: JobId, submitted_s: f64, goal_s: Option<f64>) -> Self {
        Self {
            id,
            submitted_s,
            goal_s,
            weight: 1.0,
        }
    }

    /// The key that sorts jobs by age: the oldest job has the least, and of equally old jobs the
    /// one with the lowest id.
    pub(crate) const fn age(&self) -> (OrderedF64, JobId) {
        (OrderedF64(self.submitted_s), self.id)
    }

    /// Whether a job that finished at `finished_s` met its goal. `None` for a
    /// job without one.
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
    fn an_unfinished_job_misses_its_goal_and_a_job_without_one_cannot() {
        let mut job = Job::new(JobId(1), 0.0, Some(10.0));
        assert_eq!(job.met(Some(10.0)), Some(true));
        assert_eq!(job.met(Some(10.5)), Some(false));
        assert_eq!(job.met(None), Some(false));
        job.goal_s = None;
        assert_eq!(job.met(Some(1.0)), None);
    }
}
