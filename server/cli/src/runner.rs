//! The runner of a job: a node of this process, or the server that holds the database.
//!
//! ```text
//!   ebb run, ebb jobs restart, retry ─> Runner ─┬─> Node
//!                                         │     └─> JobsClient ─> jobs.sock ─> ebb serve
//!                                         v
//!                                      FollowedJob: its progress, its end
//! ```

use std::time::Duration;

use anyhow::{Result, bail};
use ebb_jobs::history::RecordState;
use ebb_jobs::request::JobRequest;
use ebb_scheduler::runtime::Outcome;
use ebb_server::http::{ClientError, JobsClient};
use ebb_server::jobs::{Estimate, JobView, Jobs, ReadJobs, Restart};
use ebb_server::node::{Node, NodeOptions, RunningJob, Stop};
use ebb_storage::{Maintenance, Options};

use super::attached::Attached;
use super::database::{Location, disk};
use super::unpaced;

/// The HTTP status of a request that the state of a job does not allow.
const CONFLICT: u16 = 409;

/// The runner of a job.
pub(crate) enum Runner {
    /// This process, which has the database open and runs the job by a node of its own.
    Own(Box<Node>),
    /// The server that holds the database.
    Server(JobsClient),
}

/// A job that a command follows to its end.
pub(crate) struct FollowedJob<'r> {
    /// The job when the command began to follow it.
    pub(crate) started: JobView,
    place: Place<'r>,
}

/// The place where a job runs.
enum Place<'r> {
    /// The job runs in this process. The command follows the job by its handle and not by the
    /// history, which may not be able to record the job.
    Own(RunningJob),
    Server(&'r JobsClient),
}

impl Runner {
    /// Returns the server that a command addresses, or else starts a node over the database.
    pub(crate) fn of(attached: &Attached) -> Result<Self> {
        if let Some(server) = attached.server()? {
            return Ok(Self::Server(server));
        }
        let options = unpaced::for_tests(NodeOptions::command());
        Self::open(&attached.location, options)
    }

    /// Opens the database in the directory `location`, and starts a node that runs its jobs in this
    /// process. The database must exist.
    pub(crate) fn open(location: &Location, options: NodeOptions) -> Result<Self> {
        let db = Options {
            create_if_missing: false,
            maintenance: Maintenance::Background,
            disk: disk(location.group_readable),
            ..Options::default()
        };
        Ok(Self::Own(Box::new(Node::open(
            &location.data,
            db,
            options,
        )?)))
    }

    /// Returns whether there is a keyspace of this name.
    pub(crate) fn is_keyspace(&self, name: &str) -> Result<bool> {
        Ok(match self {
            Self::Own(node) => (node.db()).is_some_and(|db| db.existing_keyspace(name).is_ok()),
            Self::Server(server) => server.keyspaces()?.iter().any(|found| found == name),
        })
    }

    /// Estimates how long a job would take.
    pub(crate) fn estimate(&self, request: &JobRequest) -> Result<Estimate> {
        Ok(match self {
            Self::Own(node) => node.estimate(request)?,
            Self::Server(server) => server.estimate(request)?,
        })
    }

    /// Starts a job.
    pub(crate) fn submit(&self, request: JobRequest) -> Result<FollowedJob<'_>> {
        Ok(match self {
            Self::Own(node) => FollowedJob::own(node.submit(request)?),
            Self::Server(server) => FollowedJob::of(server, server.submit(&request)?),
        })
    }

    /// Starts an unfinished job again.
    pub(crate) fn restart(&self, id: &str) -> Result<Restart<FollowedJob<'_>>> {
        Ok(match self {
            Self::Own(node) => node.restart(id)?.map(FollowedJob::own),
            Self::Server(server) => {
                let restart = server.restart(id)?;
                restart.map(|started| FollowedJob::of(server, started))
            }
        })
    }

    /// Submits again the request of a job that failed or was cancelled.
    pub(crate) fn retry(&self, id: &str) -> Result<FollowedJob<'_>> {
        Ok(match self {
            Self::Own(node) => FollowedJob::own(node.retry(id)?),
            Self::Server(server) => FollowedJob::of(server, server.retry(id)?),
        })
    }

    /// Returns the ids of the unfinished jobs that do not run, the oldest first.
    pub(crate) fn unfinished(&self) -> Result<Vec<String>> {
        Ok(match self {
            Self::Own(node) => (node.unfinished()?.into_iter()).map(|job| job.id).collect(),
            Self::Server(server) => {
                let jobs = server.list()?.into_iter();
                let is_left =
                    |job: &JobView| job.record.state == RecordState::Started && !job.is_running();
                jobs.filter(is_left).map(|job| job.record.id).collect()
            }
        })
    }

    /// If the jobs run in a node of this process, cancels them and ends the node. If they run in a
    /// server, does nothing: the server and its jobs go on.
    pub(crate) fn shutdown(&self) {
        if let Self::Own(node) = self {
            node.shutdown(Stop::Cancel);
        }
    }

    /// Returns the client of the server that runs the jobs; `None` if a node of this process does.
    pub(crate) fn server(&self) -> Option<&JobsClient> {
        match self {
            Self::Own(_) => None,
            Self::Server(server) => Some(server),
        }
    }
}

impl<'r> FollowedJob<'r> {
    fn own(job: RunningJob) -> Self {
        Self {
            started: job.view(),
            place: Place::Own(job),
        }
    }

    /// Follows a job of `server`. `started` is its latest view.
    pub(crate) fn of(server: &'r JobsClient, started: JobView) -> Self {
        Self {
            started,
            place: Place::Server(server),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.started.record.id
    }

    /// Returns whether the job runs in a server. Such a job goes on when this process ends.
    pub(crate) fn is_in_server(&self) -> bool {
        matches!(self.place, Place::Server(_))
    }

    /// Waits for the end of the job, at most for the time `wait`, and returns the job as it is
    /// then; with its end if it has ended.
    ///
    /// # Errors
    /// When the process that runs the job stops before the end of the job, or accepts no further step of it;
    /// when the server no longer has the job.
    pub(crate) fn look(&self, wait: Duration) -> Result<JobView> {
        let looked = match &self.place {
            Place::Own(job) => {
                job.wait_timeout(wait);
                Ok(job.view())
            }
            Place::Server(server) => server.show(self.id(), wait),
        };
        let (name, id) = (&self.started.record.application, self.id());
        let left = format!(
            "{name} {id} is unfinished: the next ebb serve goes on with it, or ebb jobs restart"
        );
        let mut view = match looked {
            Ok(view) => view,
            Err(error) => bail!("{error}; {left}"),
        };
        if let Some(end) = view.end.as_ref().filter(|end| end.parked) {
            match &end.report.outcome {
                Outcome::Failed { cause } => bail!("{cause}; {left}"),
                _ => bail!("the server stops; {left}"),
            }
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

    /// Requests that the job stops. This has no effect while its output is being put in place, and
    /// once the job has ended.
    pub(crate) fn cancel(&self) -> Result<()> {
        match &self.place {
            Place::Own(job) => {
                job.cancel();
            }
            Place::Server(server) => {
                let asked = server.cancel(self.id());
                // A job that has ended meanwhile is reported by the next look.
                if let Err(error) = asked
                    && !is_conflict(&error)
                {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

/// Returns whether `error` is that the server refuses a request because of the state of the job.
fn is_conflict(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if problem.status == CONFLICT)
}
