//! The facts about a job that are known before its first task starts.

use ebb_jobs::advice::{Expected, FreeCores, PUBLICATION, PublicationFacts, SizedJob};
use ebb_jobs::history::KnownProfile;
use ebb_jobs::launch::{OpenJob, TableCheck};
use ebb_jobs::request::JobRequest;
use ebb_jobs::{JobError, Work};

use super::Node;
use crate::jobs::{Estimate, ReadInput};

/// The facts that are known about a job before it starts, when its inputs are open.
pub(super) struct Prospect {
    /// The measured profile (CPU time and bytes of tasks) of an earlier job with the same work, or at least
    /// with the same application; `None` if the history has none.
    pub(super) known: Option<KnownProfile>,
    /// The estimate, if the caller of [`prospect`] passed the free cores.
    pub(super) estimate: Option<Estimate>,
    /// The inputs with the names that clients see.
    pub(super) inputs: Vec<ReadInput>,
}

/// Returns the number of tasks that the job of `request` would have, and the CPU time that a task is
/// expected to take. Starts no job and leaves nothing behind.
///
/// # Errors
/// When the request makes no sense, an input or the output cannot be opened, no profile of such jobs is
/// known, or the history cannot be read; the error of `check`.
pub(super) fn sized(
    node: &Node,
    request: &JobRequest,
    check: &TableCheck<'_>,
) -> Result<SizedJob, JobError> {
    let open_job = OpenJob::open(request, &[], &node.site, check)?;
    let known = known(node, request, &open_job)?;
    let publications = PublicationFacts::default();
    let expected = expected(node, request, &open_job, known.as_ref(), &publications);
    expected.sized()?.map_err(JobError::senseless)
}

/// Looks up in the history the profile of an earlier job with the same work as `request`, or else of one
/// with the same application. Returns `None` if there is none, or no history.
fn known(
    node: &Node,
    request: &JobRequest,
    open_job: &OpenJob,
) -> Result<Option<KnownProfile>, JobError> {
    let application = request.application.name();
    let name = match &open_job.work {
        Some(Work::Job(spec)) => &spec.name[..],
        Some(Work::Chain(_)) | None => application,
    };
    let work = request.work_of(name, &open_job.tables().inputs);
    Ok(match node.existing_history()? {
        Some(history) => history.known_profile(application, name, &work)?,
        None => None,
    })
}

/// Looks up the profiles of publications, the jobs that export tables to Iceberg, and the size of the tables that
/// the job of `request` reads. The estimate of a job that will miss its goal needs them: it predicts whether
/// Spark, on other machines, would meet the goal after a publication of the tables. The result is empty for a job
/// without a goal, for a job that no other engine could run, and if there are no such profiles.
fn publications(
    node: &Node,
    request: &JobRequest,
    open_job: &OpenJob,
) -> Result<PublicationFacts, JobError> {
    if request.goal_s.is_none() || !request.could_read_publication() {
        return Ok(PublicationFacts::default());
    }
    let profiles = match node.existing_history()? {
        Some(history) => history.profiles_of(PUBLICATION)?,
        None => Vec::new(),
    };
    if profiles.is_empty() {
        return Ok(PublicationFacts::default());
    }
    Ok(PublicationFacts {
        profiles,
        tables_bytes: open_job.tables_bytes()?,
    })
}

fn expected<'a>(
    node: &Node,
    request: &'a JobRequest,
    open_job: &'a OpenJob,
    known: Option<&'a KnownProfile>,
    publications: &'a PublicationFacts,
) -> Expected<'a> {
    let Some(work) = &open_job.work else {
        unreachable!("nobody has taken it yet");
    };
    Expected {
        name: request.application.name(),
        work,
        known: node.db().map(|_| known),
        cores: open_job.cores,
        machine_cores: ebb_colocate::reachable_cores() as u32,
        goal_s: request.goal_s,
        publications,
    }
}

/// Looks up the known facts about the job of `request`. If `free`, the cores that are free for jobs, is
/// given, estimates the job's time as well.
pub(super) fn prospect(
    node: &Node,
    request: &JobRequest,
    open_job: &OpenJob,
    free: Option<FreeCores>,
) -> Result<Prospect, JobError> {
    let known = known(node, request, open_job)?;
    let publications = publications(node, request, open_job)?;
    let expected = expected(node, request, open_job, known.as_ref(), &publications);
    let advice = free.map(|free| expected.expect(free)).transpose()?;
    let inputs = open_job.inputs.iter().map(|opened| ReadInput {
        name: opened.label.clone(),
        snapshot: (opened.snapshot.as_ref()).map(|snapshot| snapshot.name().to_string()),
        skipped: opened.skipped.clone(),
    });
    let inputs: Vec<ReadInput> = inputs.collect();
    Ok(Prospect {
        estimate: advice.map(|advice| Estimate::new(advice, inputs.clone())),
        inputs,
        known,
    })
}
