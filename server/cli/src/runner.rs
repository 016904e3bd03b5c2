//! The runner of a job: a node of this process, or the server that holds the database.
//!
//! ```text
//!   ebb run, ebb jobs restart, retry ─> Runner ─┬─> Node
//!                                         │     └─> JobsClient ─> jobs.sock ─> ebb serve
//!                                         v
//!                                      FollowedJob: its progress, its end
//! ```

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use ebb_jobs::Failure;
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
/// The HTTP status of a request for which the server has no room, or which comes while it stops.
const UNAVAILABLE: u16 = 503;

/// The runner of a job.
pub(crate) enum Runner {
    /// This process, which runs the job by a node of its own. The node has the database open if the job
    /// needs it.
    Own(Box<Node>),
    /// The server that holds the database.
    Server(JobsClient),
}

/// A job that a command follows to its end.
pub(crate) struct FollowedJob<'r> {
    /// The view of the job at the time when the command began to follow it.
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

    /// Waits for the end of the job, at most for the time `wait`, and returns a view of the job.
    /// The view has the end, if the job has ended. If too many requests wait in the server, sends
    /// the request again after a pause.
    ///
    /// # Errors
    /// When the server does not answer, or refuses the request for another reason. When the job
    /// will not end in this run: the process that runs the job stops, or cannot start the next step
    /// of a chain of jobs. When the job has ended, and the server no longer has the report.
    pub(crate) fn look(&self, wait: Duration) -> Result<JobView> {
        let looked = match &self.place {
            Place::Own(job) => {
                job.wait_timeout(wait);
                Ok(job.view())
            }
            Place::Server(server) => loop {
                match server.show(self.id(), wait) {
                    // The job goes on meanwhile, and may even have succeeded.
                    Err(error) if is_busy(&error) => pause(wait),
                    looked => break looked,
                }
            },
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

    /// Requests that the job stops. This has no effect while its output is being put in place, while a server
    /// has no room for the request, and once the job has ended.
    ///
    /// # Errors
    /// When the server does not answer, or refuses the request for another reason.
    pub(crate) fn cancel(&self) -> Result<()> {
        match &self.place {
            Place::Own(job) => {
                job.cancel();
            }
            Place::Server(server) => {
                let asked = server.cancel(self.id());
                // The next look reports a job that has ended meanwhile. After it, `watch` sends a request again that
                // a busy server has refused.
                if let Err(error) = asked
                    && !is_conflict(&error)
                    && !is_busy(&error)
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

/// Returns whether `error` is that too many requests wait in the server. A server that shuts down
/// answers with the same status, but with another class of failure.
fn is_busy(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem)
        if problem.status == UNAVAILABLE && problem.failure == Failure::Other)
}

/// Waits before a request that a busy server has refused is sent again.
#[expect(
    clippy::disallowed_methods,
    reason = "no event shows that the server has room"
)]
fn pause(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;

    use ebb_server::http::SOCKET;
    use serde_json::{Value, json};

    use super::*;

    /// Answers as many requests as there are `responses`, one with each, and then stops.
    fn answer(listener: &UnixListener, responses: &[(&str, Value)]) {
        // The first connection sends nothing: it only shows that a server listens.
        drop(listener.accept().unwrap());
        for (status, body) in responses {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(&stream).lines().map(Result::unwrap);
            assert_ne!(lines.take_while(|line| !line.is_empty()).count(), 0);
            let body = body.to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
        }
    }

    /// Regression: a job that succeeded was reported as unfinished when the busy server refused one
    /// request for its state.
    #[test]
    fn a_job_is_followed_although_a_busy_server_refuses_requests() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        let busy = json!({
            "title": "Service Unavailable", "status": UNAVAILABLE, "detail": "retry later",
            "failure": Failure::Other,
        });
        let record = json!({
            "id": "1001", "application": "pi", "request": {}, "own_snapshots": [],
            "state": "started", "started_unix_ms": 0, "starts": 1, "commits": false,
            "ended_unix_ms": null, "report": null, "attempts_dropped": 0,
        });
        let status = json!({
            "id": 1, "name": "pi", "is_lease": false, "state": "running", "follows": [],
            "submitted_s": 0.0, "goal_s": null, "finished_s": null, "share_hundredths": 95,
            "tasks_running": 1, "maps_done": 3, "maps_total": 8, "reduces_done": 0,
            "reduces_total": 1, "attempts_failed": 0, "cpu_s": 1.0, "cause": null,
        });
        let view = json!({
            "record": record,
            "run": {"inputs": [], "policy": "fair", "estimate": null,
                    "progress": {"step": 1, "steps": 1, "status": status}},
            "prediction": null,
            "end": null,
        });
        let refused = ("503 Service Unavailable", busy);
        let responses = [refused.clone(), ("200 OK", view.clone()), refused];
        let server = thread::spawn(move || answer(&listener, &responses));
        let client = JobsClient::of(dir.path()).unwrap().unwrap();
        let view: JobView = serde_json::from_value(view).unwrap();
        let job = FollowedJob::of(&client, view.clone());
        assert_eq!(job.look(Duration::ZERO).unwrap(), view);
        // The request is sent again after the next look.
        job.cancel().unwrap();
        server.join().unwrap();
    }
}
