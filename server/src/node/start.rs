//! Starts jobs of a node: opens, records and drives them.

use std::sync::Arc;

use ebb_jobs::advice::FreeCores;
use ebb_jobs::history::{OwnSnapshot, RecordState, Submission};
use ebb_jobs::launch::{OpenJob, check_files, output_is_there};
use ebb_jobs::request::JobRequest;
use ebb_jobs::restart::{Fate, fate};
use ebb_jobs::{JobError, Work};
use ebb_scheduler::runtime::{JobSpec, SubmitError};
use serde_json::json;

use super::Node;
use super::drive::{begin, failed};
use super::expect::prospect;
use super::jobs::running;
use super::running::RunningJob;
use crate::jobs::{Estimate, Restart};

/// See [`Node::submit_as`] and [`Node::submit_changed`].
pub(super) fn submit(
    node: &Node,
    request: JobRequest,
    submission: Option<Submission>,
    change: impl FnOnce(JobSpec) -> JobSpec,
) -> Result<RunningJob, JobError> {
    let free = request.goal_s.map(|_| free_cores(node));
    let mut open_job = open(node, &request, &[])?;
    open_job.work = match open_job.work {
        Some(Work::Job(spec)) => Some(Work::Job(Box::new(change(*spec)))),
        other => other,
    };
    let history = node.history()?;
    let record = match history {
        Some(history) => history.begin(&request, open_job.own_snapshots(), submission)?,
        None => node.unrecorded(&request),
    };
    let id = record.id.clone();
    let Some(claim) = node.registry.claim(&id) else {
        // A restart or a discard of unfinished jobs has claimed it since it was recorded, and uses or deletes
        // the snapshots.
        open_job.keep();
        return Err(running(&record));
    };
    // Held here too until a failure is recorded, so that no restart comes before that.
    let claim = Arc::new(claim);
    let started = claim
        .take_output(&request.output.to)
        .map_err(JobError::from)
        .and_then(|()| prospect(node, &request, &open_job, free))
        .and_then(|prospect| {
            begin(
                node,
                request,
                record,
                open_job,
                prospect,
                Arc::clone(&claim),
            )
        });
    if let (Err(_), Some(history)) = (&started, history) {
        // It never started.
        history.forget(&id)?;
    }
    started
}

/// Opens a job that is to run. Fails if its output cannot be made, as far as that shows before
/// there are rows.
fn open(node: &Node, request: &JobRequest, own: &[OwnSnapshot]) -> Result<OpenJob, JobError> {
    request.check()?;
    check_files(request)?;
    OpenJob::open(request, own, &node.site)
}

/// The cores that other processes leave, as the governor has measured after its first cycle.
fn free_cores(node: &Node) -> FreeCores {
    let latest = node.governor().and_then(|governor| governor.latest());
    match latest {
        Some(latest) => FreeCores::beside(latest.others_cores),
        None => FreeCores::start(),
    }
}

/// See [`Jobs::estimate`](crate::jobs::Jobs::estimate).
pub(super) fn estimate(node: &Node, request: &JobRequest) -> Result<Estimate, JobError> {
    let free = free_cores(node);
    let open_job = open(node, request, &[])?;
    if let Some(Work::Job(spec)) = &open_job.work {
        spec.output.check().map_err(SubmitError::Output)?;
    }
    let prospect = prospect(node, request, &open_job, Some(free))?;
    Ok(prospect.estimate.expect("the free cores are given"))
}

/// See [`Node::restart`].
pub(super) fn restart(node: &Node, id: &str) -> Result<Restart<RunningJob>, JobError> {
    let (record, claim) = node.claim(id)?;
    let history = node.recorded()?;
    let there = |request: &JobRequest| output_is_there(request, record.written_us, &node.site);
    let request = match fate(&record, there)? {
        Fate::Start(request) => request,
        Fate::Succeeded => {
            let report = json!({"outcome": {"kind": "succeeded"}});
            node.end_unstarted(&record, RecordState::Succeeded, report)?;
            return Ok(Restart::HadSucceeded(Box::new(record)));
        }
        Fate::GiveUp(cause) => {
            node.end_unstarted(&record, RecordState::Failed, failed(&cause))?;
            return Ok(Restart::GivenUp(cause));
        }
    };
    // Before the record is changed: the job stays unfinished if another one writes to its table.
    claim.take_output(&request.output.to)?;
    // As in `submit`.
    let claim = Arc::new(claim);
    let free = request.goal_s.map(|_| free_cores(node));
    let started = open(node, &request, &record.own_snapshots).and_then(|open_job| {
        let again = history.begin_again(&record, open_job.own_snapshots())?;
        let prospect = prospect(node, &request, &open_job, free)?;
        begin(
            node,
            *request,
            again,
            open_job,
            prospect,
            Arc::clone(&claim),
        )
    });
    if let Err(error) = &started {
        let again = history.job(&record.id)?.unwrap_or(record);
        node.end_unstarted(&again, RecordState::Failed, failed(&error.to_string()))?;
    }
    started.map(Restart::Runs)
}
