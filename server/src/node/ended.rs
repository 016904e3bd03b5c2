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

/// Returns the word for an outcome: `succeeded`, `failed` or `cancelled`.
pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed { .. } => "failed",
        Outcome::Cancelled => "cancelled",
    }
}

impl EndedJobs {
    /// Counts a job, and returns the word for its outcome: `succeeded`, `failed`, `cancelled` or `parked`.
    pub(super) fn count(&mut self, end: &JobEnd) -> &'static str {
        let outcome = &end.report.outcome;
        let counter = match outcome {
            _ if end.parked => &mut self.parked,
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Failed { .. } => &mut self.failed,
        };
        *counter += 1;
        let has_verdict = !end.parked && *outcome != Outcome::Cancelled;
        match end.report.met.filter(|_| has_verdict) {
            Some(true) => self.goals_met += 1,
            Some(false) => self.goals_missed += 1,
            None => {}
        }
        if end.parked { "parked" } else { word(outcome) }
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::Counters;
    use serde_json::json;

    use super::*;

    /// Regression: a job that its server could not continue was counted as one that missed its goal, before the
    /// next server started it again.
    #[test]
    fn a_parked_job_neither_met_nor_missed_its_goal() {
        let failed = |parked: bool| -> JobEnd {
            let report = json!({
                "id": 1, "name": "pagerank", "submitted_s": 1.0, "goal_s": 61.0, "finished_s": 12.0, "met": false,
                "tasks": 2, "bytes_in": 9, "cpu_s": 0.5, "counters": Counters::default(),
                "outcome": {"kind": "failed", "cause": "the memory is full"}, "invalid_input": false,
            });
            let end = json!({"report": report, "parked": parked, "unrecorded": null});
            serde_json::from_value(end).unwrap()
        };
        let mut ended = EndedJobs::default();
        assert_eq!(ended.count(&failed(true)), "parked");
        assert_eq!((ended.parked, ended.goals_missed), (1, 0));
        assert_eq!(ended.count(&failed(false)), "failed");
        assert_eq!((ended.failed, ended.goals_missed), (1, 1));
    }
}
