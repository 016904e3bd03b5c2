//! A task: the unit of work of a job, run in one slot without preemption.

use super::JobId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The two types of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// Reads one split of the input.
    Map,
    /// Reduces one partition of the maps' output.
    Reduce,
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Map => "map",
            Self::Reduce => "reduce",
        })
    }
}

/// Task type and phase: each has a demand of its own (thesis section 5.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A map task.
    Map,
    /// A reduce task that still waits for maps to finish, pulling their output.
    Shuffle,
    /// A reduce task that has all its input.
    Reduce,
}

impl Phase {
    /// Returns the type of task that goes through this phase.
    #[must_use]
    pub const fn kind(self) -> TaskKind {
        match self {
            Self::Map => TaskKind::Map,
            Self::Shuffle | Self::Reduce => TaskKind::Reduce,
        }
    }
}

/// Identifies a task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct TaskId {
    /// The job that the task belongs to.
    pub job: JobId,
    /// Map or reduce.
    pub kind: TaskKind,
    /// Number of the task among the job's tasks of its kind, from 0.
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-{}", self.job, self.kind, self.index)
    }
}

/// State of a task over all its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Not started, or to be started again after a failed attempt.
    #[default]
    Pending,
    /// An attempt runs.
    Running,
    /// An attempt succeeded.
    Done,
    /// The task failed for good: too many attempts failed, or one failed with an error that
    /// a retry cannot fix.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_displayed_as_job_kind_and_number() {
        let task = TaskId {
            job: JobId(3),
            kind: TaskKind::Reduce,
            index: 7,
        };
        assert_eq!(task.to_string(), "job-3/reduce-7");
    }
}
