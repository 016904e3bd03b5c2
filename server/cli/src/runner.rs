//! Who runs a job: a node of this process, or the server that holds the database.
//!
//! ```text
//!   ebb run, ebb jobs restart ─> Runner ─┬─> Node
//!                                  │     └─> JobsClient ─> jobs.sock ─> ebb serve
//!                                  v
//!                               Followed: how far it is, its end
//! ```

use std::time::Duration;

use anyhow::{Result, bail};
use ebb_jobs::history::RecordState;
use ebb_jobs::request::JobRequest;
use ebb_server::http::{Estimate, JobView, JobsClient, RestartView};
use ebb_server::node::{Node, Restarted, RunningJob, Stop};

/// Who runs a job.
pub(crate) enum Runner {
    /// A node of this process.
    Own(Box<Node>),
    /// The server that holds the database.
    Server(JobsClient),
}

/// A job that was started.
pub(crate) struct Followed<'r> {
    /// As it was then.
    pub(crate) started: JobView,
    job: Job<'r>,
}

enum Job<'r> {
    Own(RunningJob, &'static str),
    Server(&'r JobsClient),
}

/// What came of a job that was to start again.
pub(crate) enum StartedAgain<'r> {
    Runs(Followed<'r>),
    HadSucceeded(JobView),
    GivenUp(String),
}

impl Runner {
    /// Whether there is a keyspace of this name.
    pub(crate) fn is_keyspace(&self, name: &str) -> Result<bool> {
        Ok(match self {
            Self::Own(node) => (node.db()).is_some_and(|db| db.existing_keyspace(name).is_ok()),
            Self::Server(server) => server.keyspaces()?.iter().any(|found| found == name),
        })
    }

    /// What can be told of a job before it starts.
    pub(crate) fn estimate(&self, request: &JobRequest) -> Result<Estimate> {
        Ok(match self {
            Self::Own(node) => {
                let (expected, inputs) = node.expect(request)?;
                Estimate::new(&expected, inputs)
            }
            Self::Server(server) => server.estimate(request)?,
        })
    }

    /// Starts a job.
    pub(crate) fn submit(&self, request: JobRequest) -> Result<Followed<'_>> {
        Ok(match self {
            Self::Own(node) => Followed::own(node.submit(request)?, node.policy()),
            Self::Server(server) => Followed::of(server, server.submit(&request)?),
        })
    }

    /// A job that runs, or ran, in the server.
    ///
    /// # Errors
    /// When there is none; in a node of this process there is none yet.
    pub(crate) fn follow(&self, id: &str) -> Result<Followed<'_>> {
        match self {
            Self::Own(_) => bail!("there is no server whose job could be followed"),
            Self::Server(server) => Ok(Followed::of(server, server.job(id, Duration::ZERO)?)),
        }
    }

    /// Starts an unfinished job again.
    pub(crate) fn restart(&self, id: &str) -> Result<StartedAgain<'_>> {
        Ok(match self {
            Self::Own(node) => match node.restart(id)? {
                Restarted::Runs(job) => StartedAgain::Runs(Followed::own(job, node.policy())),
                Restarted::HadSucceeded { record, .. } => {
                    StartedAgain::HadSucceeded(JobView::remembered(*record))
                }
                Restarted::GivenUp { cause } => StartedAgain::GivenUp(cause),
            },
            Self::Server(server) => match server.restart(id)? {
                RestartView::Runs(view) => StartedAgain::Runs(Followed::of(server, view)),
                RestartView::HadSucceeded(record) => {
                    StartedAgain::HadSucceeded(JobView::remembered(record))
                }
                RestartView::GivenUp(cause) => StartedAgain::GivenUp(cause),
            },
        })
    }

    /// The ids of the jobs that did not end and do not run, the oldest first.
    pub(crate) fn unfinished(&self) -> Result<Vec<String>> {
        Ok(match self {
            Self::Own(node) => (node.unfinished()?.into_iter()).map(|job| job.id).collect(),
            Self::Server(server) => {
                let jobs = server.jobs()?.into_iter();
                let is_left =
                    |job: &JobView| job.record.state == RecordState::Started && !job.is_running();
                jobs.filter(is_left).map(|job| job.record.id).collect()
            }
        })
    }

    /// Ends what runs in this process. A server goes on.
    pub(crate) fn shutdown(&self) {
        if let Self::Own(node) = self {
            node.shutdown(Stop::Cancel);
        }
    }

    /// The server, if it is one.
    pub(crate) fn server(&self) -> Option<&JobsClient> {
        match self {
            Self::Own(_) => None,
            Self::Server(server) => Some(server),
        }
    }
}

impl<'r> Followed<'r> {
    fn own(job: RunningJob, policy: &'static str) -> Self {
        Self {
            started: JobView::of(&job, policy),
            job: Job::Own(job, policy),
        }
    }

    fn of(server: &'r JobsClient, started: JobView) -> Self {
        Self {
            started,
            job: Job::Server(server),
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.started.record.id
    }

    /// Whether it runs in a server, which goes on with it when this process ends.
    pub(crate) fn is_in_server(&self) -> bool {
        matches!(self.job, Job::Server(_))
    }

    /// The job after waiting for its end for at most `wait`; with its end once it has
    /// ended.
    ///
    /// # Errors
    /// When it will not end where it was started.
    pub(crate) fn look(&self, wait: Duration) -> Result<JobView> {
        let server = match &self.job {
            Job::Own(job, policy) => {
                job.wait_timeout(wait);
                return Ok(JobView::of(job, policy));
            }
            Job::Server(server) => server,
        };
        let (name, id) = (&self.started.record.application, self.id());
        let left = format!(
            "{name} {id} is unfinished: the next ebb serve goes on with it, or ebb jobs restart"
        );
        let mut view = match server.job(id, wait) {
            Ok(view) => view,
            Err(error) => bail!("{error}; {left}"),
        };
        if view.end.as_ref().is_some_and(|end| end.parked) {
            bail!("the server stops; {left}");
        }
        if view.end.is_none() && view.run.is_none() {
            match view.record.state {
                RecordState::Started => bail!("{left}"),
                _ => bail!("{name} {id} has ended, and the server has no report of it"),
            }
        }
        if view.run.is_none() {
            view.run = self.started.run.clone();
        }
        Ok(view)
    }

    /// Asks it to stop: too late while its output is being put in place, then it succeeds.
    pub(crate) fn cancel(&self) -> Result<()> {
        match &self.job {
            Job::Own(job, _) => {
                job.cancel();
            }
            Job::Server(server) => {
                server.cancel(self.id())?;
            }
        }
        Ok(())
    }
}
