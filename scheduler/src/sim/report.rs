//! What a simulation recorded.

use crate::model::{Job, JobId, NodeId, TaskId};
use serde::Serialize;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobRecord {
    /// Id, submission and goal.
    pub job: Job,
    /// Start of its first task in seconds.
    pub started_s: Option<f64>,
    /// End of its last task in seconds; `None` at the horizon.
    pub finished_s: Option<f64>,
    /// Whether it met its goal; `None` without one.
    pub met: Option<bool>,
}

/// When and where a task ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TaskRecord {
    /// Which task.
    pub task: TaskId,
    /// Where it ran.
    pub node: NodeId,
    /// Start in seconds; for a reduce, of its shuffle.
    pub started_s: f64,
    /// End in seconds.
    pub finished_s: f64,
}

/// Who held what after one control cycle's decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareSample {
    /// Start of the cycle in seconds.
    pub t_s: f64,
    /// f(t) in hundredths of a core.
    pub available_hundredths: u32,
    /// Hundredths of a core held by the running tasks of each job that holds any.
    pub held_hundredths: Vec<(JobId, u32)>,
}

/// The whole record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimReport {
    /// Jobs in the order given.
    pub jobs: Vec<JobRecord>,
    /// Finished tasks in the order in which they finished.
    pub tasks: Vec<TaskRecord>,
    /// One sample per control cycle with an unfinished job.
    pub shares: Vec<ShareSample>,
    /// Time of the last event in seconds.
    pub end_s: f64,
}

impl SimReport {
    /// How many jobs met their goal.
    #[must_use]
    pub fn goals_met(&self) -> usize {
        self.jobs.iter().filter(|job| job.met == Some(true)).count()
    }
}
