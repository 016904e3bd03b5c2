//! Starts jobs of a node: opens, records and drives them.

use std::sync::Arc;

use ebb_jobs::advice::FreeCores;
use ebb_jobs::history::{JobRecord, OwnSnapshot, Submission};
use ebb_jobs::launch::{OpenJob, TableCheck, check_files, found_output, last_output_table};
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_jobs::restart::{Fate, check_output, fate, unsettled_writer};
use ebb_jobs::{Failure, JobError, Work};
use ebb_scheduler::runtime::{JobSpec, Outcome, SubmitError};
use ebb_storage::Db;
use tracing::warn;

use super::Node;
use super::drive::AcceptedJob;
use super::expect::prospect;
use super::jobs::running;
use super::registry::JobClaim;
use super::running::RunningJob;
use crate::jobs::{Estimate, Restart};

/// Starts a job. If it has a single step, `change` is applied to its specification. `submission`,
/// if given, is recorded with the job, for retries of the request. See [`Node::submit_as`] and
/// [`Node::submit_changed`].
pub(super) fn submit(
    node: &Node,
    request: JobRequest,
    submission: Option<Submission>,
    check: &TableCheck<'_>,
    change: impl FnOnce(JobSpec) -> JobSpec,
) -> Result<RunningJob, JobError> {
    let free = request.goal_s.map(|_| free_cores(node));
    let mut open_job = open(node, &request, &[], check)?;
    open_job.work = match open_job.work {
        Some(Work::Job(spec)) => Some(Work::Job(Box::new(change(*spec)))),
        other => other,
    };
    let history = node.history()?;
    let claim = |id: &str| node.registry.claim_new(id);
    let (record, claim) = match history {
        // Claimed before other requests can read the record, so no restart or discard comes in between.
        Some(history) => {
            let (own, tables) = (open_job.own_snapshots(), open_job.tables());
            history.begin_claimed(&request, own, tables, submission, claim)?
        }
        None => {
            let record = node.unrecorded(&request);
            let claim = claim(&record.id).ok_or_else(|| running(&record))?;
            (record, claim)
        }
    };
    let id = record.id.clone();
    // Held here too until a failure is recorded, so that no restart comes before that.
    let claim = Arc::new(claim);
    let started = take_output(node, &claim, &id, &request.output.to)
        .and_then(|()| prospect(node, &request, &open_job, free))
        .and_then(|prospect| AcceptedJob::submit(node, request, record, &mut open_job, prospect))
        .map(|accepted| accepted.begin(node, open_job, Arc::clone(&claim)));
    if let (Err(_), Some(history)) = (&started, history) {
        // It never started.
        history.forget(&id)?;
    }
    started
}

/// Claims the output of job `id`, if it is a table.
///
/// # Errors
/// When a running job writes to the table, or when an unfinished job may have put its rows there: a restart
/// of the unfinished job could not distinguish its rows from those of job `id`.
fn take_output(
    node: &Node,
    claim: &JobClaim,
    id: &str,
    place: &OutputPlace,
) -> Result<(), JobError> {
    claim.take_output(place)?;
    let (OutputPlace::Table(table), Some(history)) = (place, node.existing_history()?) else {
        return Ok(());
    };
    // Read under the claim: a job that held it until now has recorded its end.
    let jobs = history.jobs()?;
    match unsettled_writer(&jobs, id, table) {
        None => Ok(()),
        Some(JobRecord {
            id, application, ..
        }) => Err(JobError::State(format!(
            "{application} {id} is unfinished, and may have put its rows into table {table}: restart \
             or discard it first"
        ))),
    }
}

/// Checks a request, and opens the inputs and the output of its job, to start the job, to start it again, or
/// only to estimate it. `own` are the snapshots that an earlier start of the job made.
///
/// # Errors
/// When the request makes no sense, an input does not exist, the output lies in the directory of the
/// database, or it is clear already that the output cannot be created; the error of `check`.
fn open(
    node: &Node,
    request: &JobRequest,
    own: &[OwnSnapshot],
    check: &TableCheck<'_>,
) -> Result<OpenJob, JobError> {
    request.check()?;
    check_files(request, node.db().map(Db::dir))?;
    OpenJob::open(request, own, &node.site, check)
}

/// Returns the cores that are free for jobs: those that other processes and the limit of the cgroup leave, but
/// at least the floor, the cores that jobs get even while others use all. The use by other processes, and the
/// limit, are those of the governor's latest cycle; before the first cycle, the use is measured from now on.
fn free_cores(node: &Node) -> FreeCores {
    let governor = node.governor();
    let free = match governor.and_then(|governor| governor.latest()) {
        Some(latest) => {
            let limit_cores = latest.cpu_limit.map_or(f64::INFINITY, |limit| limit.cores);
            FreeCores::beside(latest.others_cores).with_limit(limit_cores)
        }
        None => FreeCores::start(),
    };
    free.with_floor(governor.map_or(0.0, |governor| governor.machine().floor_cores))
}

/// Estimates how long a job would take: see [`Node::estimate_as`].
pub(super) fn estimate(
    node: &Node,
    request: &JobRequest,
    check: &TableCheck<'_>,
) -> Result<Estimate, JobError> {
    let free = free_cores(node);
    let open_job = open(node, request, &[], check)?;
    if let Some(Work::Job(spec)) = &open_job.work {
        spec.output.check().map_err(SubmitError::Output)?;
    }
    let prospect = prospect(node, request, &open_job, Some(free))?;
    Ok(prospect.estimate.expect("the free cores are given"))
}

/// Returns whether the error with which a job did not start is no fault of the job, so that a later restart may
/// succeed: the runtime accepts no jobs at present, the disk is full, or the client may not use the
/// tables of the job.
fn may_start_later(error: &JobError) -> bool {
    error.is_transient()
        || Failure::of(error) == Failure::DiskFull
        || matches!(error, JobError::Forbidden(_))
}

/// Starts an unfinished job again: see [`Node::restart_as`]. If the runtime accepts no jobs, the disk is full, or
/// `check` fails, the job stays unfinished, with its snapshots, for a later restart.
pub(super) fn restart(
    node: &Node,
    id: &str,
    check: &TableCheck<'_>,
) -> Result<Restart<RunningJob>, JobError> {
    // The shutdown may also begin later, before the runtime has the job.
    if node.is_closed() {
        return Err(SubmitError::ShuttingDown.into());
    }
    let (record, claim) = node.claim(id)?;
    let history = node.recorded()?;
    let found = |request: &JobRequest| found_output(&record, request, &node.site);
    let request = match fate(&record, found)? {
        Fate::Start(request) => request,
        Fate::Succeeded => {
            let ended = node.end_unstarted(&record, &Outcome::Succeeded)?;
            return Ok(Restart::HadSucceeded(Box::new(ended)));
        }
        Fate::GiveUp(cause) => {
            let outcome = Outcome::Failed {
                cause: cause.clone(),
            };
            node.end_unstarted(&record, &outcome)?;
            return Ok(Restart::GivenUp(cause));
        }
    };
    // Before the record is changed: the job stays unfinished if another one writes to its table.
    take_output(node, &claim, &record.id, &request.output.to)?;
    // As in `submit`.
    let claim = Arc::new(claim);
    let free = request.goal_s.map(|_| free_cores(node));
    let mut has_begun = false;
    let opened = open(node, &request, &record.own_snapshots, check);
    let started = opened.and_then(|mut open_job| {
        let (own, tables) = (open_job.own_snapshots(), open_job.tables());
        let last = last_output_table(&record, &request, &node.site)?;
        check_output(&record, &request, last, &tables)?;
        let again = history.begin_again(&record, own, tables)?;
        has_begun = true;
        // The record names all its snapshots: if the job does not start, they stay until the record has its end.
        open_job.keep();
        let prospect = prospect(node, &request, &open_job, free)?;
        let accepted = AcceptedJob::submit(node, *request, again, &mut open_job, prospect)?;
        Ok(accepted.begin(node, open_job, Arc::clone(&claim)))
    });
    if let Err(error) = &started {
        let again = history.job(&record.id)?.unwrap_or(record);
        if !may_start_later(error) {
            let cause = error.to_string();
            node.end_unstarted(&again, &Outcome::Failed { cause })?;
        } else if has_begun && let Err(unparked) = history.park(&again) {
            let id = &again.id;
            warn!(target: "jobs", "the history does not show that job {id} is parked: {unparked}");
        }
    }
    started.map(Restart::Runs)
}
