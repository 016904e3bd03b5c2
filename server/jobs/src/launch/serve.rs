//! Makes the job from its description, in a process that runs tasks for a node.

use std::process::ExitCode;

use ebb_scheduler::runtime::JobSpec;

use super::description::{InputDescription, JobDescription};
use super::output::OpenOutput;
use crate::SpillPlace;
use crate::application::Materials;
use crate::chain::Work;
use crate::error::JobError;
use crate::processes;
use crate::request::RequestError;

/// Runs tasks if this process was started to run tasks; returns `None` if it was not. A program
/// whose jobs run in processes calls this before it parses its arguments.
pub fn serve_tasks_if_worker() -> Option<ExitCode> {
    processes::serve_tasks(described_job)
}

/// Makes the job from its description. Its output is only a placeholder: the process that started
/// this one writes the rows.
fn described_job(description_json: &[u8]) -> Result<JobSpec, JobError> {
    let description = serde_json::from_slice(description_json).map_err(RequestError::Malformed)?;
    let JobDescription {
        request,
        step,
        splits,
        inputs,
    } = description;
    let inputs: Result<Vec<_>, _> = inputs.into_iter().map(InputDescription::open).collect();
    let materials = Materials {
        inputs: inputs?,
        file: request.paths().file,
        destination: &OpenOutput::Parent,
        writes_json: request.output.is_json(),
        splits,
        spills: &SpillPlace::from(""),
        #[cfg(feature = "publish")]
        publication: None,
    };
    match (request.application.make(&materials)?, step) {
        (Work::Job(spec), None) => Ok(*spec),
        (Work::Chain(chain), Some(step)) => Ok(chain.described_job(&step)?),
        _ => {
            let name = request.application.name();
            Err(JobError::senseless(format!(
                "{name} is described as another kind of job"
            )))
        }
    }
}
