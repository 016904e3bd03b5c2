//! What became of each attempt at a task, and who wants to be told.

use super::measured::MeasuredProfile;
use super::report::{JobReport, JobStatus};
use crate::model::{JobId, TaskKind};
use serde::{Deserialize, Serialize};

/// How an attempt at a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// Well, and its result counts.
    Done,
    /// By an error or a panic.
    Failed {
        /// Which.
        cause: String,
    },
    /// It hung: its process was killed, or its thread left behind.
    LeftBehind,
    /// Its result was not wanted any more: another attempt was first, or the job
    /// stopped.
    Stopped,
    /// It was given up for its memory, which another job or the transactional load
    /// needed; its task is tried again, and no failure is counted.
    Preempted,
}

/// What a journal is to be told.
pub(super) enum News {
    Submitted(JobStatus),
    AttemptEnded(JobId, AttemptRecord),
    Ended(Box<(JobReport, MeasuredProfile)>),
}

impl News {
    pub fn tell(&self, journal: &dyn JobJournal) {
        match self {
            Self::Submitted(job) => journal.submitted(job),
            Self::AttemptEnded(job, attempt) => journal.attempt_ended(*job, attempt),
            Self::Ended(end) => journal.ended(&end.0, &end.1),
        }
    }
}

/// One attempt at a task. Bytes are counted of attempts that ended well; of
/// others they are 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Map or reduce.
    pub kind: TaskKind,
    /// The task's number among those of its kind, from 0.
    pub index: u32,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// When it was handed to a thread, in seconds of the runtime's time.
    pub started_s: f64,
    /// When it ended or was given up.
    pub ended_s: f64,
    /// CPU time in seconds, that of sorting, spilling and merging included.
    pub cpu_s: f64,
    /// CPU time of sorting, spilling and merging, in seconds.
    pub shuffle_cpu_s: f64,
    /// Key and value bytes read.
    pub bytes_in: u64,
    /// Key and value bytes emitted.
    pub bytes_out: u64,
    /// Bytes written to disk by spills and merges, compressed.
    pub spilled_bytes: u64,
    /// The most memory that its buffers took.
    pub memory_bytes_max: u64,
    /// How it ended.
    pub outcome: AttemptOutcome,
}

/// Is told of what happens to jobs, so that it outlives the process.
///
/// One call at a time, in the order in which things happened. Of one job: first
/// `submitted`, then any `attempt_ended`, each once, and at last `ended`, before
/// [`JobHandle::wait`](super::JobHandle::wait) returns. The calls come outside of
/// the runtime's lock, on threads that have news of their own to bring: of a task,
/// of a commit, the submitter's, the control thread. They may do I/O, but what is
/// next on that thread waits for them. They must not submit jobs.
pub trait JobJournal: Send + Sync {
    /// A job was accepted; no task of it has started. If it is refused after all,
    /// because the runtime shuts down meanwhile, it is told as cancelled.
    fn submitted(&self, job: &JobStatus);

    /// An attempt at a task of `job` ended.
    fn attempt_ended(&self, job: JobId, attempt: &AttemptRecord);

    /// A job ended. What its tasks took is in `measured`, for the next job of its
    /// kind.
    fn ended(&self, report: &JobReport, measured: &MeasuredProfile);
}
