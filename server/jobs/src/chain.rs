//! The work of a request: one job of the runtime, or a chain of jobs, each of which reads the output of
//! the one before.

use ebb_scheduler::runtime::{JobReport, JobSpec, TaskError};

/// The work of a request: one job of the runtime, or a chain of them.
pub enum Work {
    Job(Box<JobSpec>),
    /// Several jobs, one after the other.
    Chain(Box<dyn Chain>),
}

impl From<JobSpec> for Work {
    fn from(spec: JobSpec) -> Self {
        Self::Job(Box::new(spec))
    }
}

/// The jobs of a chain, in their order. The caller submits one job at a time and stops at the first
/// that does not succeed.
pub trait Chain: Send {
    fn name(&self) -> &str;

    /// Returns the number of jobs in the chain.
    fn length(&self) -> u32;

    /// Returns the next job to run: the first one for `None`, else the job after the one whose report is
    /// `done`. Returns `None` after the last job, whose output is the output of the chain.
    ///
    /// # Errors
    /// When the output of the job before cannot be read.
    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError>;

    /// Returns the description of the last job returned by `next`, for a process that runs tasks of that job.
    /// Such a process makes the chain from the same request, and passes the description to
    /// [`described_job`](Self::described_job).
    ///
    /// # Errors
    /// When `next` has not returned a job yet.
    fn describe(&self) -> Result<Vec<u8>, TaskError>;

    /// Returns the job that `step` (see `describe`) describes, without its output. A process that runs
    /// tasks of the job calls this.
    ///
    /// # Errors
    /// When `step` describes no job.
    fn described_job(&self, step: &[u8]) -> Result<JobSpec, TaskError>;
}
