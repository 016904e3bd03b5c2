//! What a simulation recorded.

use super::job::SimJob;
use super::job_run::Tally;
use crate::model::{Job, JobId, NodeId, TaskId};
use serde::Serialize;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobRecord {
    /// Id, submission, goal and weight.
    pub job: Job,
    /// False for a job that was never submitted: the run ended before its submission, or before
    /// the job that it comes after, and then its submission and goal count from an end that never
    /// came.
    pub was_submitted: bool,
    /// Its map tasks.
    pub maps: u32,
    /// Its reduce tasks.
    pub reduces: u32,
    /// Start of its first task in seconds.
    pub started_s: Option<f64>,
    /// End of its last map in seconds; `None` at the horizon.
    pub maps_done_s: Option<f64>,
    /// End of its last task in seconds; `None` at the horizon.
    pub finished_s: Option<f64>,
    /// Whether it met its goal; `None` without one.
    pub met: Option<bool>,
    /// Attempts of maps that ran where their input lies, or did not care.
    pub local_maps: u32,
    /// Attempts of maps that ran elsewhere.
    pub remote_maps: u32,
    /// What those read over the network, in bytes.
    pub remote_bytes: u64,
    /// Attempts of maps that used an accelerator.
    pub accelerated_maps: u32,
    /// Attempts that were lost with their node.
    pub lost_attempts: u32,
    /// Time in slots of all attempts, in seconds.
    pub slot_s: f64,
    /// The CPU they held, in hundredths of a core times seconds.
    pub cpu_work: f64,
}

impl JobRecord {
    pub(super) fn of(spec: &SimJob, tally: &Tally) -> Self {
        Self {
            job: spec.job,
            was_submitted: tally.was_submitted,
            maps: spec.maps,
            reduces: spec.reduces,
            started_s: tally.started_s,
            maps_done_s: tally.maps_done_s,
            finished_s: tally.finished_s,
            met: spec.job.met(tally.finished_s),
            local_maps: tally.local_maps,
            remote_maps: tally.remote_maps,
            remote_bytes: (spec.map_input_bytes).saturating_mul(tally.remote_maps.into()),
            accelerated_maps: tally.accelerated_maps,
            lost_attempts: tally.lost_attempts,
            slot_s: tally.slot_s,
            cpu_work: tally.work,
        }
    }
}

/// When and where a task ran to its end.
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
    /// False for a map whose input lay elsewhere.
    pub local: bool,
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
    /// What they really use, in hundredths of a core: less where typed slots let
    /// more run on a node than it has resources for.
    pub used_hundredths: f64,
    /// How satisfied each job is with the decision, by equation (5): from minus
    /// infinity to 1, ordered by job.
    pub utilities: Vec<(JobId, f64)>,
}

/// The whole record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimReport {
    /// Jobs in the order given.
    pub jobs: Vec<JobRecord>,
    /// Finished tasks in the order in which they finished, if recorded.
    pub tasks: Vec<TaskRecord>,
    /// At most one sample per control cycle with an unfinished job.
    pub shares: Vec<ShareSample>,
    /// Time of the last event in seconds.
    pub end_s: f64,
    /// The window that counts, in seconds; it ends with the run at the latest.
    pub window_s: (f64, f64),
    /// CPU held by tasks within the window, in hundredths of a core times
    /// seconds.
    pub work_in_window: f64,
    /// What f(t) left within the window, in the same unit.
    pub available_in_window: f64,
}
