//! The work of a request: one job of the runtime, or a chain. Each job of a chain reads the output of the
//! job before it.

use ebb_scheduler::runtime::{JobReport, JobSpec, TaskError};

/// The jobs of the runtime that a request requires.
pub enum Work {
    /// One job.
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
    /// The name of the chain.
    fn name(&self) -> &str;

    /// How many jobs there are in all.
    fn length(&self) -> u32;

    /// Returns the job after the one with the report `done`, or the first one. Returns `None` after the
    /// last one, whose output is the output of the chain.
    ///
    /// # Errors
    /// When what the last job left cannot be read.
    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError>;

    /// What another process has to be told, beside what the chain was made of, to run
    /// tasks of the job that came last.
    ///
    /// # Errors
    /// When there was none.
    fn describe(&self) -> Result<Vec<u8>, TaskError>;

    /// In such a process, the job that `step` describes; without its output.
    ///
    /// # Errors
    /// When it describes none.
    fn described_job(&self, step: &[u8]) -> Result<JobSpec, TaskError>;
}
