//! Reports of the runtime: progress, results, history.

use super::counters::Counters;
use crate::model::JobId;
use ebb_threads::SchedulingClass;
use serde::{Deserialize, Serialize};

/// The most bytes of an error's text that are kept: the text may have any length, and a thousand
/// ended jobs are kept.
const CAUSE_BYTES_MAX: usize = 4 << 10;

/// Returns the part of an error's text that is kept: its first [`CAUSE_BYTES_MAX`] bytes, with an
/// ellipsis if the text is longer.
pub(in crate::runtime) fn short_cause(mut cause: String) -> String {
    if cause.len() > CAUSE_BYTES_MAX {
        cause.truncate(cause.floor_char_boundary(CAUSE_BYTES_MAX));
        cause.push_str(" ...");
        cause.shrink_to_fit();
    }
    cause
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// No task has started. For a lease: no thread is in it.
    Waiting,
    /// Tasks have started. For a lease: threads work under it.
    Running,
    /// All tasks are done; the output is being committed.
    Committing,
    /// The job failed or was cancelled: its running tasks stop, then its output is cleared.
    Stopping,
    /// The output is committed.
    Succeeded,
    /// The job has failed, and its output is cleared. A task, the splitting of the input or the
    /// commit failed, a job that this one follows failed or was cancelled, the policy or the
    /// capacity source panicked, or hanging threads hold all memory.
    Failed,
    /// Cancelled by request or by shutdown.
    Cancelled,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Outcome {
    /// The output is committed.
    Succeeded,
    /// The job failed and has no output.
    Failed {
        /// The reason of the failure, as text: in most cases a task, its attempt, and its error.
        cause: String,
    },
    /// The job was cancelled.
    Cancelled,
}

/// The report on a job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobReport {
    /// The job's id.
    pub id: JobId,
    /// The job's name.
    pub name: String,
    /// Time of the submission, in seconds of the runtime's time.
    pub submitted_s: f64,
    /// The job's goal in seconds of the runtime's time; `None` without one.
    pub goal_s: Option<f64>,
    /// Time at which the output was committed or cleared, in seconds of the runtime's time.
    pub finished_s: f64,
    /// Whether the job succeeded by its goal; `None` without a goal.
    pub met: Option<bool>,
    /// Number of tasks, maps and reduces.
    pub tasks: u32,
    /// Key and value bytes read by the job's maps.
    pub bytes_in: u64,
    /// CPU time of all attempts in seconds.
    pub cpu_s: f64,
    /// Totals over the job's successful attempts, and the numbers of its failed, retried and
    /// speculative attempts.
    pub counters: Counters,
    /// The result.
    pub outcome: Outcome,
    /// True if the job failed because of invalid input, in a task or at the commit
    /// ([`TaskError::Invalid`](crate::runtime::TaskError::Invalid)): a new run fails too, unless
    /// the input or the job changes.
    pub invalid_input: bool,
    /// True if the job failed because a disk is full or a quota is exceeded: see
    /// [`RuntimeOptions::is_disk_full`](crate::runtime::RuntimeOptions::is_disk_full).
    #[serde(default)]
    pub disk_full: bool,
}

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStatus {
    /// The job's id.
    pub id: JobId,
    /// The job's name.
    pub name: String,
    /// True if this is a [lease](crate::runtime::Lease), whose tasks are threads of the caller.
    pub is_lease: bool,
    /// The state of the job.
    pub state: JobState,
    /// The jobs that have to succeed before this one can start, and that have not ended.
    pub follows: Vec<JobId>,
    /// Time of the submission, in seconds of the runtime's time.
    pub submitted_s: f64,
    /// The job's goal in seconds of the runtime's time; `None` without one.
    pub goal_s: Option<f64>,
    /// Time of the job's end, in seconds of the runtime's time; `None` if it has not ended.
    pub finished_s: Option<f64>,
    /// The present share of the job, in hundredths of a core; 0 when unmanaged.
    pub share_hundredths: u32,
    /// The number of attempts that run at present.
    pub tasks_running: u32,
    /// The number of finished maps.
    pub maps_done: u32,
    /// Total number of maps.
    pub maps_total: u32,
    /// The number of finished reduces.
    pub reduces_done: u32,
    /// Total number of reduces.
    pub reduces_total: u32,
    /// The number of attempts that have failed so far.
    pub attempts_failed: u64,
    /// CPU time used so far, in seconds.
    pub cpu_s: f64,
    /// The error of a job that failed, or that is stopping because of a failure; `None` for any
    /// other job.
    pub cause: Option<String>,
}

impl JobStatus {
    /// For a job that has ended, returns the reason why jobs that follow it cannot run; `None` if
    /// the job succeeded, so that they can.
    pub(in crate::runtime) fn failure_reason(&self) -> Option<String> {
        match (self.state, &self.cause) {
            (JobState::Succeeded, _) => None,
            (JobState::Failed, Some(cause)) => Some(format!("failed: {cause}")),
            (JobState::Failed, None) => Some("failed".to_owned()),
            _ => Some("was cancelled".to_owned()),
        }
    }
}

/// The runtime at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeStatus {
    /// Seconds since the runtime started.
    pub now_s: f64,
    /// The capacity of analytics in this cycle, in hundredths of a core.
    pub capacity_hundredths: u32,
    /// The policy's name.
    pub policy: &'static str,
    /// The scheduling class that the kernel granted to task threads.
    pub scheduling_class: SchedulingClass,
    /// Memory that attempts have reserved for their records, in bytes.
    pub memory_bytes: u64,
    /// All jobs and leases that have not ended, and the latest jobs that have ended; ordered by id.
    pub jobs: Vec<JobStatus>,
}

/// The share and the CPU time of one job in one control cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobSample {
    /// The job's id.
    pub job: JobId,
    /// The job's share, in hundredths of a core.
    pub share_hundredths: u32,
    /// CPU time that the job used in the cycle, in seconds.
    pub used_cpu_s: f64,
}

/// The record of one control cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CycleSample {
    /// The start of the cycle in seconds of the runtime's time.
    pub t_s: f64,
    /// The length of the cycle in seconds. A cycle is shorter than usual if an event makes the
    /// runtime plan at once, such as a submission or the end of a phase of a job.
    pub length_s: f64,
    /// The capacity of analytics, in hundredths of a core.
    pub capacity_hundredths: u32,
    /// The most memory that attempts had reserved at a time, in bytes.
    pub memory_bytes: u64,
    /// The jobs and leases that had not ended at the start of the cycle, by id.
    pub jobs: Vec<JobSample>,
}
