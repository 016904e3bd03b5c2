//! Jobs whose tasks run in other processes.

use std::sync::Arc;

use ebb_scheduler::runtime::{JobReport, JobSpec, TaskError};
use ebb_storage::PinnedTable;

use super::description::{InputDescription, JobDescription};
use super::input::OpenInput;
use crate::chain::{Chain, Outline, Work};
use crate::error::JobError;
use crate::request::JobRequest;

/// Returns the description of a job for the processes that run its tasks, and pins of its tables,
/// which keep their files in place.
pub(super) fn describe(
    request: &JobRequest,
    inputs: &[OpenInput],
    splits: u32,
    pins: &mut Vec<PinnedTable>,
) -> Result<JobDescription, JobError> {
    let mut described = Vec::new();
    for opened in inputs {
        let (input, pin) = InputDescription::of(opened)?;
        described.push(input);
        pins.extend(pin);
    }
    Ok(JobDescription {
        request: request.clone(),
        step: None,
        splits,
        inputs: described,
    })
}

/// Returns `work`, changed so that its tasks run in child processes that receive `description`.
pub(super) fn isolated(
    work: Work,
    description: JobDescription,
    task_memory_bytes: usize,
) -> Result<Work, JobError> {
    let isolated = Isolated {
        description,
        task_memory_bytes,
    };
    Ok(match work {
        Work::Job(spec) => Work::Job(Box::new(isolated.job(*spec, None))),
        Work::Chain(chain) => Work::Chain(Box::new(IsolatedChain { chain, isolated })),
    })
}

struct Isolated {
    description: JobDescription,
    task_memory_bytes: usize,
}

impl Isolated {
    fn job(&self, spec: JobSpec, step: Option<Vec<u8>>) -> JobSpec {
        let described = JobDescription {
            step,
            ..self.description.clone()
        };
        let processes = described.processes_with_memory(self.task_memory_bytes);
        spec.in_processes(Arc::new(processes))
    }
}

/// A chain of jobs, each of which runs its tasks in child processes of its own.
struct IsolatedChain {
    chain: Box<dyn Chain>,
    isolated: Isolated,
}

impl Chain for IsolatedChain {
    fn name(&self) -> &str {
        self.chain.name()
    }

    fn length(&self) -> u32 {
        self.chain.length()
    }

    fn outline(&self) -> Outline {
        self.chain.outline()
    }

    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError> {
        let Some(spec) = self.chain.next(done)? else {
            return Ok(None);
        };
        Ok(Some(self.isolated.job(spec, Some(self.describe()?))))
    }

    fn describe(&self) -> Result<Vec<u8>, TaskError> {
        self.chain.describe()
    }

    fn described_job(&self, step: &[u8]) -> Result<JobSpec, TaskError> {
        self.chain.described_job(step)
    }
}
