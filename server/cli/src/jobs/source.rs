//! The history of jobs, read from a database or requested from a server.

use std::time::Duration;

use anyhow::Result;
use ebb_jobs::history::{History, JobAttempt, ProfileRecord};
use ebb_server::http::{JobView, JobsClient};

use super::find;
use crate::attached::Attached;

/// A history of jobs.
pub(super) enum Source {
    /// The history in a database; `None` if it has no job yet.
    Database(Option<History>),
    /// The history of a server.
    Server(JobsClient),
}

impl Source {
    /// Opens the history of the server, or of the database if there is no server, for a command
    /// that only reads.
    pub(super) fn open(attached: &Attached) -> Result<Self> {
        if let Some(server) = attached.server()? {
            return Ok(Self::Server(server));
        }
        let history = History::existing(&attached.location.open_to_read()?)?;
        Ok(Self::Database(history))
    }

    /// Returns all jobs, the oldest first.
    pub(super) fn jobs(&self) -> Result<Vec<JobView>> {
        match self {
            Self::Server(server) => Ok(server.jobs()?),
            Self::Database(history) => {
                let jobs = history.as_ref().map(History::jobs).transpose()?;
                let jobs = jobs.unwrap_or_default().into_iter();
                Ok(jobs.map(JobView::remembered).collect())
            }
        }
    }

    /// Returns the job of this id, or the latest for `last`, with the attempts at its tasks.
    pub(super) fn job(&self, id: &str) -> Result<(JobView, Vec<JobAttempt>)> {
        match self {
            Self::Server(server) => {
                let job = server.job(id, Duration::ZERO)?;
                let attempts = server.attempts(&job.record.id)?;
                Ok((job, attempts))
            }
            Self::Database(history) => {
                let job = find(self.jobs()?, id)?;
                let attempts = history
                    .as_ref()
                    .map(|history| history.attempts(&job.record.id));
                Ok((job, attempts.transpose()?.unwrap_or_default()))
            }
        }
    }

    /// Returns the profiles of applications: the CPU time and bytes of their tasks.
    pub(super) fn profiles(&self) -> Result<Vec<ProfileRecord>> {
        match self {
            Self::Server(server) => Ok(server.profiles()?),
            Self::Database(history) => {
                let profiles = history.as_ref().map(History::profiles);
                Ok(profiles.transpose()?.unwrap_or_default())
            }
        }
    }
}
