//! Counts of the ended jobs of a node, by outcome.

use ebb_scheduler::runtime::Outcome;

use crate::jobs::JobEnd;

/// The numbers of jobs that ended since a node started, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedJobs {
    /// Jobs that committed their output.
    pub succeeded: u64,
    /// Jobs that ended with an error, for instance because a task failed in all its attempts, or the commit
    /// failed.
    pub failed: u64,
    /// Jobs that were cancelled, by a request or by a shutdown of the node that cancels the running jobs.
    pub cancelled: u64,
    /// Jobs that are unfinished because the node stopped, or accepted no further step of them. A later node
    /// can start them again.
    pub parked: u64,
    /// Jobs with a goal that succeeded in time.
    pub goals_met: u64,
    /// Jobs with a goal that succeeded too late, or failed. Cancelled and parked jobs count neither here nor
    /// in `goals_met`.
    pub goals_missed: u64,
}

impl EndedJobs {
    /// Counts a job, and returns the word for its outcome: `succeeded`, `failed`, `cancelled` or `parked`.
    pub(super) fn count(&mut self, end: &JobEnd) -> &'static str {
        let (counter, word) = match &end.report.outcome {
            _ if end.parked => (&mut self.parked, "parked"),
            Outcome::Succeeded => (&mut self.succeeded, "succeeded"),
            Outcome::Cancelled => (&mut self.cancelled, "cancelled"),
            Outcome::Failed { .. } => (&mut self.failed, "failed"),
        };
        *counter += 1;
        match (&end.report.outcome, end.report.met) {
            (Outcome::Cancelled, _) | (_, None) => {}
            (_, Some(true)) => self.goals_met += 1,
            (_, Some(false)) => self.goals_missed += 1,
        }
        word
    }
}
