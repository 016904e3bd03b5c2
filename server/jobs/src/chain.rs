//! The work of a request: one job of the runtime, or a chain. Each job of a chain reads the output of the
//! job before it.

use ebb_scheduler::runtime::{JobReport, JobSpec, TaskError};

/// The jobs of the runtime that a request requires.
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

    /// Returns the job after the one with the report `done`, or the first one. Returns `None` after the
    /// last one, whose output is the output of the chain.
    ///
    /// # Errors
    /// When what the last job left cannot be read.
    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError>;

    /// Returns the description of the last job returned by `next`, for a process that runs
    /// its tasks. Such a process makes the chain from the same request.
    ///
    /// # Errors
    /// When `next` has not returned a job yet.
    fn describe(&self) -> Result<Vec<u8>, TaskError>;

    /// Returns the job that `step` describes, without its output, in a process that runs
    /// its tasks.
    ///
    /// # Errors
    /// When `step` describes no job.
    fn described_job(&self, step: &[u8]) -> Result<JobSpec, TaskError>;
}
