//! How the jobs of a node ended.

use ebb_scheduler::runtime::Outcome;

use crate::jobs::JobEnd;

/// How many of its jobs ended how, since a node started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedJobs {
    /// Their output is there.
    pub succeeded: u64,
    /// A task failed for good, or the commit did.
    pub failed: u64,
    /// Somebody asked for it.
    pub cancelled: u64,
    /// They are unfinished: the next node starts them again.
    pub parked: u64,
    /// Those that succeeded before their goal.
    pub goals_met: u64,
    /// Those that succeeded after it, or failed.
    pub goals_missed: u64,
}

impl EndedJobs {
    /// Counts one, and returns the word for how it ended.
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
