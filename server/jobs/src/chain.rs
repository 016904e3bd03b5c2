//! What a request comes down to: one job, or several of which each reads what the one
//! before has left.

use ebb_scheduler::runtime::{JobReport, JobSpec, TaskError};

/// What is to be run.
pub enum Work {
    /// One job.
    Job(Box<JobSpec>),
    /// Several, one after the other.
    Chain(Box<dyn Chain>),
}

/// Says which job is next. Its caller submits one job at a time and stops at the first
/// that does not succeed.
pub trait Chain: Send {
    /// What the whole is called.
    fn name(&self) -> &str;

    /// How many jobs there are in all.
    fn length(&self) -> u32;

    /// The next job, after the one that `done` tells of; the first without one.
    /// `None` after the last, whose output is that of the chain.
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
