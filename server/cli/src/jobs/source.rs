//! Where jobs are remembered: in the database, or by the server that holds it.

use std::time::Duration;

use anyhow::Result;
use ebb_jobs::history::{History, JobAttempt, ProfileRecord};
use ebb_server::http::{JobView, JobsClient};

use super::find;
use crate::database::Location;

/// Where jobs are remembered.
pub(super) enum Source {
    /// In a database, if any job was.
    Database(Option<History>),
    /// By a server.
    Server(JobsClient),
}

impl Source {
    /// That of the database at `location`, for a command that only reads.
    pub(super) fn open(location: &Location) -> Result<Self> {
        if let Some(server) = JobsClient::of(&location.data)? {
            return Ok(Self::Server(server));
        }
        let history = History::existing(&location.open_to_read()?)?;
        Ok(Self::Database(history))
    }

    /// All jobs, the oldest first.
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

    /// The job of this id, or the latest, and the attempts at its tasks.
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

    /// What the tasks of applications took.
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
