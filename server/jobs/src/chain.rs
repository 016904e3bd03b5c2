//! The work of a request: one job of the runtime, or a chain of jobs, each of which reads the output of
//! the one before.

use std::sync::Arc;

use ebb_scheduler::runtime::{Input, JobReport, JobSpec, TaskError};

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

    /// Returns the jobs of the chain, for an estimate before the first one starts.
    fn outline(&self) -> Outline;

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

/// The jobs that carry out a request, before the first one starts. Every job but the first has as many map tasks
/// as the job before has reduce tasks.
pub struct Outline {
    /// The input of the first job.
    pub input: Arc<dyn Input>,
    /// The stages in their order; at least one.
    pub stages: Vec<Stage>,
}

/// Jobs of a chain that run one after the other and do the same work each, such as the iterations of PageRank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The names of the jobs in their order, which profiles have too; at least one.
    pub names: Vec<String>,
    /// Number of reduce tasks of each job.
    pub reduces: u32,
}

impl Work {
    /// Returns the jobs of the runtime that carry out the work.
    pub(crate) fn outline(&self) -> Outline {
        match self {
            Self::Job(spec) => Outline {
                input: Arc::clone(&spec.input),
                stages: vec![Stage {
                    names: vec![spec.name.clone()],
                    reduces: spec.reduces,
                }],
            },
            Self::Chain(chain) => chain.outline(),
        }
    }
}
