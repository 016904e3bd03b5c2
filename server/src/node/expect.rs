//! What is known of a job before its first task starts.

use ebb_jobs::JobError;
use ebb_jobs::advice::{Expectation, Expected, FreeCores, SizedJob};
use ebb_jobs::history::KnownProfile;
use ebb_jobs::launch::Launched;
use ebb_jobs::request::JobRequest;

use super::Node;
use super::running::ReadInput;

/// What is known of a job that was launched.
pub(super) struct Prospect {
    /// What the history has of the tasks of such a job.
    pub(super) known: Option<KnownProfile>,
    /// How long it will take; only where that was asked for.
    pub(super) expected: Option<Expectation>,
    /// The inputs as a report names them.
    pub(super) inputs: Vec<ReadInput>,
}

/// The job of `request` as its tasks; nothing is left of it.
///
/// # Errors
/// When it makes no sense, or nothing is known of such jobs.
pub(super) fn sized(node: &Node, request: &JobRequest) -> Result<SizedJob, JobError> {
    let launched = Launched::open(request, &[], &node.site)?;
    let known = known(node, request)?;
    let sized = expected(node, request, &launched, known.as_ref()).sized()?;
    sized.map_err(JobError::senseless)
}

/// Looks up the profile of jobs with this application and work in the history.
fn known(node: &Node, request: &JobRequest) -> Result<Option<KnownProfile>, JobError> {
    let name = request.application.name();
    Ok(match node.existing_history()? {
        Some(history) => history.known_profile(name, &request.work())?,
        None => None,
    })
}

fn expected<'a>(
    node: &Node,
    request: &'a JobRequest,
    launched: &'a Launched,
    known: Option<&'a KnownProfile>,
) -> Expected<'a> {
    let Some(work) = &launched.work else {
        unreachable!("nobody has taken it yet");
    };
    Expected {
        name: request.application.name(),
        work,
        known: node.db().map(|_| known),
        cores: launched.cores,
        machine_cores: super::machine_cores(),
        goal_s: request.goal_s,
    }
}

/// Looks up what is known of the job of `request`; with the cores that are `free` also how
/// long it will take.
pub(super) fn prospect(
    node: &Node,
    request: &JobRequest,
    launched: &Launched,
    free: Option<FreeCores>,
) -> Result<Prospect, JobError> {
    let known = known(node, request)?;
    let expected = expected(node, request, launched, known.as_ref());
    let expected = free.map(|free| expected.expect(free)).transpose()?;
    let inputs = launched.inputs.iter().map(|opened| ReadInput {
        name: opened.label.clone(),
        snapshot: (opened.snapshot.as_ref()).map(|snapshot| snapshot.name().to_string()),
        skipped: opened.skipped.clone(),
    });
    Ok(Prospect {
        inputs: inputs.collect(),
        known,
        expected,
    })
}
