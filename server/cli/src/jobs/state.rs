//! The states of jobs, as commands name them.

use std::fmt;

use clap::ValueEnum;
use ebb_jobs::history::RecordState;
use ebb_server::jobs::JobView;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum JobState {
    Running,
    /// The job has not ended, but does not run: its process ended too early, or a server that was
    /// stopped left the job for its next start.
    Unfinished,
    Succeeded,
    Failed,
    Cancelled,
}

impl JobState {
    pub(super) fn of(job: &JobView) -> Self {
        match job.record.state {
            RecordState::Started if job.is_running() => Self::Running,
            RecordState::Started => Self::Unfinished,
            RecordState::Succeeded => Self::Succeeded,
            RecordState::Failed => Self::Failed,
            RecordState::Cancelled => Self::Cancelled,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Unfinished => "unfinished",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}
