//! What became of an attempt at a task.

use crate::model::TaskKind;
use serde::{Deserialize, Serialize};

/// How an attempt at a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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

/// One attempt at a task. Bytes are counted of attempts that ended well; of
/// others they are 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
