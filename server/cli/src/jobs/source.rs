//! The source of the jobs that a command shows.

use std::time::Duration;

use anyhow::Result;
use ebb_jobs::history::{JobAttempt, ProfileRecord};
use ebb_server::http::JobsClient;
use ebb_server::jobs::{JobHistory, JobView, ReadJobs};

use crate::attached::Attached;

/// The jobs of a server, or of a database that no server has open.
pub(super) enum JobSource {
    Server(JobsClient),
    History(JobHistory),
}

impl JobSource {
    /// Returns the jobs of the server, if there is one, or else the history in the directory.
    pub(super) fn of(attached: &Attached) -> Result<Self> {
        Ok(match attached.server()? {
            Some(server) => Self::Server(server),
            None => Self::History(JobHistory::open(&attached.location.open_to_read()?)?),
        })
    }

    /// Returns all jobs, the oldest first.
    pub(super) fn list(&self) -> Result<Vec<JobView>> {
        Ok(match self {
            Self::Server(jobs) => jobs.list()?,
            Self::History(jobs) => jobs.list()?,
        })
    }

    /// Returns a job as it is now.
    pub(super) fn show(&self, id: &str) -> Result<JobView> {
        Ok(match self {
            Self::Server(jobs) => jobs.show(id, Duration::ZERO)?,
            Self::History(jobs) => jobs.show(id, Duration::ZERO)?,
        })
    }

    /// Returns the attempts at the tasks of a job, in the order in which they ended.
    pub(super) fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>> {
        Ok(match self {
            Self::Server(jobs) => jobs.attempts(id)?,
            Self::History(jobs) => jobs.attempts(id)?,
        })
    }

    pub(super) fn profiles(&self) -> Result<Vec<ProfileRecord>> {
        Ok(match self {
            Self::Server(jobs) => jobs.profiles()?,
            Self::History(jobs) => jobs.profiles()?,
        })
    }
}
