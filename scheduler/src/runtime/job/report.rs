//! What the runtime tells about itself: progress, results, history.

use super::counters::Counters;
use crate::model::JobId;
use ebb_threads::SchedulingClass;
use serde::{Deserialize, Serialize};

/// The longest cause that is kept, in bytes: an error's text may be of any length, and
/// a thousand jobs are remembered.
const CAUSE_BYTES_MAX: usize = 4 << 10;

/// What is kept of the text of an error.
pub(in crate::runtime) fn short_cause(mut cause: String) -> String {
    if cause.len() > CAUSE_BYTES_MAX {
        cause.truncate(cause.floor_char_boundary(CAUSE_BYTES_MAX));
        cause.push_str(" ...");
        cause.shrink_to_fit();
    }
    cause
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// No task has started. A lease: no thread is in.
    Waiting,
    /// Tasks have started. A lease: threads are in.
    Running,
    /// All tasks are done; the output is being committed.
    Committing,
    /// Failed or cancelled; running tasks stop and the output is cleared.
    Stopping,
    /// The output is there.
    Succeeded,
    /// A task failed for good, or the commit did.
    Failed,
    /// Cancelled by request or by shutdown.
    Cancelled,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Outcome {
    /// The output is there.
    Succeeded,
    /// It is not.
    Failed {
        /// The task that failed last, and why.
        cause: String,
    },
    /// It was asked to stop.
    Cancelled,
}

/// The final word on a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobReport {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// When it was submitted, in seconds of the runtime's time.
    pub submitted_s: f64,
    /// Its goal in seconds of the runtime's time.
    pub goal_s: Option<f64>,
    /// When it ended, output committed or cleared.
    pub finished_s: f64,
    /// Whether it succeeded by its goal; `None` without one.
    pub met: Option<bool>,
    /// Number of tasks, maps and reduces.
    pub tasks: u32,
    /// Key and value bytes read by its maps.
    pub bytes_in: u64,
    /// CPU time of all attempts in seconds.
    pub cpu_s: f64,
    /// What its tasks counted.
    pub counters: Counters,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it failed for invalid input, in a task or at the commit
    /// ([`TaskError::Invalid`](crate::runtime::TaskError::Invalid)): the input has to
    /// change, or the job.
    pub invalid_input: bool,
}

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStatus {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Whether it is a [lease](crate::runtime::Lease): its tasks are threads of others.
    pub is_lease: bool,
    /// Where it stands.
    pub state: JobState,
    /// Jobs that have to succeed before it can start.
    pub follows: Vec<JobId>,
    /// When it was submitted, in seconds of the runtime's time.
    pub submitted_s: f64,
    /// Its goal in seconds of the runtime's time.
    pub goal_s: Option<f64>,
    /// When it ended.
    pub finished_s: Option<f64>,
    /// What it may use at present, in hundredths of a core. Unmanaged: 0.
    pub share_hundredths: u32,
    /// Attempts that run.
    pub tasks_running: u32,
    /// Maps finished.
    pub maps_done: u32,
    /// Maps in all.
    pub maps_total: u32,
    /// Reduces finished.
    pub reduces_done: u32,
    /// Reduces in all.
    pub reduces_total: u32,
    /// Attempts that failed so far.
    pub attempts_failed: u64,
    /// CPU time used so far, in seconds.
    pub cpu_s: f64,
    /// Why it failed.
    pub cause: Option<String>,
}

impl JobStatus {
    /// Of a job that has ended: why what follows it cannot run.
    pub(in crate::runtime) fn why_not(&self) -> Option<String> {
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
    /// What analytics may use in this cycle, in hundredths of a core.
    pub capacity_hundredths: u32,
    /// The policy's name.
    pub policy: &'static str,
    /// What the kernel granted to task threads.
    pub scheduling_class: SchedulingClass,
    /// Memory that attempts have reserved for their records, in bytes.
    pub memory_bytes: u64,
    /// All jobs that have not ended and the latest that have, by id.
    pub jobs: Vec<JobStatus>,
}

/// One job in one control cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobSample {
    /// Which job.
    pub job: JobId,
    /// What it was given, in hundredths of a core.
    pub share_hundredths: u32,
    /// CPU time it used in the cycle, in seconds.
    pub used_cpu_s: f64,
}

/// One control cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CycleSample {
    /// Its start in seconds of the runtime's time.
    pub t_s: f64,
    /// Its length in seconds; a submission or the end of a phase cuts it short.
    pub length_s: f64,
    /// What analytics could use, in hundredths of a core.
    pub capacity_hundredths: u32,
    /// The most memory that attempts had reserved at once, in bytes.
    pub memory_bytes: u64,
    /// Jobs that had not ended at its start, by id.
    pub jobs: Vec<JobSample>,
}
