//! The record of an attempt at a task.

use crate::model::TaskKind;
use serde::{Deserialize, Serialize};

/// The way in which an attempt at a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// The attempt succeeded, and its result counts.
    Done,
    /// The attempt failed with an error or a panic.
    Failed {
        /// The text of the error or panic.
        cause: String,
    },
    /// The attempt hung, and the runtime gave it up: the attempt's process is killed, or the
    /// runtime no longer waits for the attempt's thread.
    LeftBehind,
    /// The result was no longer needed: another attempt was first, or the job stopped.
    Stopped,
    /// The attempt was stopped because another job or the transactional load needed its memory. Its
    /// task is tried again, and no failure is counted.
    Preempted,
}

/// One attempt at a task. Its byte counts, its peak memory and the CPU time of its shuffle are 0
/// unless the outcome is [`AttemptOutcome::Done`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AttemptRecord {
    /// The kind of the task.
    pub kind: TaskKind,
    /// The task's number among those of its kind, from 0.
    pub index: u32,
    /// The attempt's number among the attempts at its task, from 1.
    pub attempt: u32,
    /// Start of the attempt on a thread, in seconds of the runtime's time.
    pub started_s: f64,
    /// Time at which the attempt ended or was given up, in seconds of the runtime's time.
    pub ended_s: f64,
    /// CPU time in seconds, including sorting, spilling and merging.
    pub cpu_s: f64,
    /// CPU time of sorting, spilling and merging, in seconds.
    pub shuffle_cpu_s: f64,
    /// Key and value bytes read.
    pub bytes_in: u64,
    /// Key and value bytes emitted.
    pub bytes_out: u64,
    /// Compressed bytes that the attempt wrote to disk for sorting: by spills and merges.
    pub spilled_bytes: u64,
    /// Peak memory of the attempt's buffers, in bytes.
    pub memory_bytes_max: u64,
    /// The way in which the attempt ended.
    pub outcome: AttemptOutcome,
}
