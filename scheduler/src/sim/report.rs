//! The report of a simulation.

use super::job::SimJob;
use super::job_run::Tally;
use crate::model::{Job, JobId, NodeId, TaskId};
use serde::Serialize;

/// The course of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobRecord {
    /// Id, submission, goal and weight.
    pub job: Job,
    /// False if the run ended before the job was submitted, or before the end of the job after
    /// which it is submitted. In the latter case `job` has its submission and goal in seconds
    /// after that end, which never came.
    pub was_submitted: bool,
    /// Number of map tasks.
    pub maps: u32,
    /// Number of reduce tasks.
    pub reduces: u32,
    /// Start of the first task in seconds; `None` if no task started.
    pub started_s: Option<f64>,
    /// End of the last map in seconds; `None` if it did not end before the horizon.
    pub maps_done_s: Option<f64>,
    /// End of the last task in seconds; `None` if it did not end before the horizon.
    pub finished_s: Option<f64>,
    /// True if the job met its goal; `None` without a goal.
    pub met: Option<bool>,
    /// Number of attempts of maps that ran on a node with their input, or whose input is near to
    /// all nodes.
    pub local_maps: u32,
    /// Number of attempts of maps that ran on a node without their input.
    pub remote_maps: u32,
    /// Bytes that attempts of maps without local input read over the network.
    pub remote_bytes: u64,
    /// Number of attempts of maps that used an accelerator.
    pub accelerated_maps: u32,
    /// Number of attempts that were lost with their node.
    pub lost_attempts: u32,
    /// Total time for which attempts held slots, in seconds.
    pub slot_s: f64,
    /// CPU that all attempts held, summed over time, in hundredths of a core-second. An attempt
    /// holds the CPU that its task demands, used or not.
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

/// The successful attempt of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TaskRecord {
    /// Job, kind and number of the task.
    pub task: TaskId,
    /// Node on which the task ran.
    pub node: NodeId,
    /// Start of the task in seconds; for a reduce, the start of its shuffle.
    pub started_s: f64,
    /// End of the task in seconds.
    pub finished_s: f64,
    /// False for a map whose input lay on another node.
    pub local: bool,
}

/// The CPU that tasks of each job hold after the policy's decision in one control cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareSample {
    /// Start of the cycle in seconds.
    pub t_s: f64,
    /// f(t), the capacity left to analytics, in hundredths of a core.
    pub available_hundredths: u32,
    /// For each job with running tasks, ordered by id: the CPU that these tasks hold, in hundredths
    /// of a core.
    pub held_hundredths: Vec<(JobId, u32)>,
    /// CPU that the tasks really use, in hundredths of a core. It is less than they hold if typed
    /// slots let more tasks run on a node than it has resources for.
    pub used_hundredths: f64,
    /// Satisfaction of each job with the decision, by the thesis's equation (5): the number of
    /// slots that the decision gives to the job compared with those that it needs for its goal,
    /// from minus infinity to 1. Ordered by job.
    pub utilities: Vec<(JobId, f64)>,
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimReport {
    /// Jobs in the order in which the caller passed them.
    pub jobs: Vec<JobRecord>,
    /// Finished tasks in the order in which they finished, if the configuration records tasks.
    pub tasks: Vec<TaskRecord>,
    /// Samples of the jobs' shares: at most one per control cycle with an unfinished job.
    pub shares: Vec<ShareSample>,
    /// The end of the simulation, in seconds: the last event, or the horizon if jobs were still
    /// unfinished.
    pub end_s: f64,
    /// The measured window, in seconds; it ends with the run at the latest.
    pub window_s: (f64, f64),
    /// CPU held by tasks within the window, in hundredths of a core-second.
    pub work_in_window: f64,
    /// Integral over the window of f(t), the capacity left to analytics, in hundredths of a
    /// core-second.
    pub available_in_window: f64,
}
