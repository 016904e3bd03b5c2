//! One interface to jobs, wherever they run.
//!
//! ```text
//!   Jobs ──────┬─> Node: the jobs of this process, over its database
//!              └─> JobsClient: the jobs of a server, over HTTP
//!   ReadJobs ──┬─> both
//!              └─> JobHistory: the jobs of a database that no process has open
//! ```
//!
//! A job has these names on its way from a request to the history:
//!
//! | type | defined in | meaning |
//! | --- | --- | --- |
//! | `JobRequest` | `ebb_jobs::request` | a job as a person describes it, also in the history |
//! | `OpenJob` | `ebb_jobs::launch` | a request whose inputs and output are open |
//! | `Work` | `ebb_jobs::chain` | the part of an open job that runs: one `JobSpec`, or a chain of them |
//! | `JobSpec` | `ebb_scheduler::runtime` | one job of the runtime, before it is submitted |
//! | `JobHandle` | `ebb_scheduler::runtime` | one job of the runtime, live |
//! | `RunningJob` | `node` | a job of a node, live; it wraps the `JobHandle` of the step that runs |
//! | `JobRecord` | `ebb_jobs::history` | a job in the history |
//! | [`JobView`] | `jobs` | a job as clients see it: its record, its run and its end |
//! | [`JobEnd`] | `jobs` | the end of a job, as the node that ran it reports it |
//! | `Fate` | `ebb_jobs::restart` | the decision about a job that did not end, made from its record |
//! | [`Restart`] | `jobs` | the result of carrying that decision out |
//!
//! This module calls neither the node nor HTTP: both implement its traits. `wait` decides by samples of
//! the governor why a job makes little progress.

mod history;
mod view;
mod wait;

use std::error::Error;
use std::time::Duration;

use ebb_jobs::history::{JobAttempt, ProfileRecord};
use ebb_jobs::request::JobRequest;

pub use self::history::JobHistory;
pub use self::view::{
    BeyondHorizon, ByteProgress, EndForecast, Estimate, JobEnd, JobProgress, JobView, Prediction,
    ReadInput, Restart, RestartView, Run,
};
pub use self::wait::Wait;
pub(crate) use self::wait::{Beside, WINDOW_S, runnable_tasks};

/// Read access to jobs: to those of a node, of a server, or of a history.
///
/// The parameter `id` of a method is the id of a job, or `last` for the latest one. A method fails if there
/// is no such job, if the history cannot be read, or if the server does not answer. All methods block.
pub trait ReadJobs {
    /// The error of the implementation, which is a node, a client of a server, or a history. It is not
    /// converted to a common type, because routes turn it into a response, and commands into an exit
    /// code.
    type Error: Error + Send + Sync + 'static;

    /// Returns all jobs in the history, the oldest first. A node without a database returns the running jobs.
    fn list(&self) -> Result<Vec<JobView>, Self::Error>;

    /// Returns a job. If it runs, first waits for its end, but for at most `wait`.
    fn show(&self, id: &str, wait: Duration) -> Result<JobView, Self::Error>;

    /// Returns the attempts at the tasks of a job, in the order in which they ended. The history has at most
    /// 10,000 of each job.
    fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>, Self::Error>;

    /// Returns the profiles of applications: the CPU time and bytes of their tasks.
    fn profiles(&self) -> Result<Vec<ProfileRecord>, Self::Error>;
}

/// Jobs that can be started and stopped: those of a node, or of a server.
pub trait Jobs: ReadJobs {
    /// Starts a job.
    ///
    /// # Errors
    /// When the request makes no sense, an input does not exist, or the output cannot be created. A refused
    /// job leaves nothing behind.
    fn submit(&self, request: &JobRequest) -> Result<JobView, Self::Error>;

    /// Estimates how long a job would take. The job does not start, and leaves nothing behind.
    ///
    /// # Errors
    /// See [`submit`](Self::submit).
    fn estimate(&self, request: &JobRequest) -> Result<Estimate, Self::Error>;

    /// Requests that a job stops. Returns true if it will stop, and false if it is too late, because the
    /// job's output is being put in place or its end is being recorded.
    ///
    /// # Errors
    /// When the job has ended, when it is parked already, or when it is unfinished and does not
    /// run. The error names the state of the job.
    fn cancel(&self, id: &str) -> Result<bool, Self::Error>;

    /// Starts an unfinished job again. The job reads the snapshots that an earlier start made for it. A job
    /// whose output is in place is recorded as succeeded instead. A job that must not start again, for
    /// example because it was started too often, is recorded as failed; the result has the reason.
    ///
    /// # Errors
    /// - When the job runs or has ended, another job writes to its table, or this build does not know its
    ///   request: nothing changes.
    /// - When the node shuts down, hanging tasks keep it from accepting jobs, or the disk is full: the job
    ///   stays unfinished, with its snapshots.
    /// - When the job cannot start for another reason, such as a missing input: it is recorded as failed.
    fn restart(&self, id: &str) -> Result<RestartView, Self::Error>;

    /// Submits again, as another job, the request of a job that failed or was cancelled. An input
    /// without a named snapshot is read as it is now.
    ///
    /// # Errors
    /// When the job has succeeded, runs or is unfinished, or is a backup or a verification. See also
    /// [`submit`](Self::submit).
    fn retry(&self, id: &str) -> Result<JobView, Self::Error>;

    /// Ends an unfinished job without starting it again: it is recorded as cancelled, and the snapshots
    /// that were made for it are deleted.
    ///
    /// # Errors
    /// When the job runs or has ended.
    fn discard(&self, id: &str) -> Result<JobView, Self::Error>;
}
