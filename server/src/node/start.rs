//! How a job of a node starts: it is launched, recorded and driven.

use ebb_jobs::advice::{Expectation, FreeCores};
use ebb_jobs::history::{JobRecord, OwnSnapshot, RecordState, Submission};
use ebb_jobs::launch::{Launched, check_files, output_is_there};
use ebb_jobs::request::JobRequest;
use ebb_jobs::restart::{Fate, fate};
use ebb_jobs::{JobError, Work};
use ebb_scheduler::runtime::{JobSpec, SubmitError};
use serde_json::json;

use super::Node;
use super::drive::{begin, failed};
use super::expect::prospect;
use super::running::{ReadInput, RunningJob};

/// What came of a job that was to start again.
pub enum Restarted {
    /// It runs.
    Runs(RunningJob),
    /// It had succeeded: its output is there, which it was about to put in place.
    HadSucceeded {
        /// Its record.
        record: Box<JobRecord>,
        /// What it was.
        request: Box<JobRequest>,
    },
    /// It does not start again, and is recorded as failed.
    GivenUp {
        /// Why.
        cause: String,
    },
}

/// See [`Node::submit_as`] and [`Node::submit_changed`].
pub(super) fn submit(
    node: &Node,
    request: JobRequest,
    submission: Option<Submission>,
    change: impl FnOnce(JobSpec) -> JobSpec,
) -> Result<RunningJob, JobError> {
    let free = request.goal_s.map(|_| free_cores(node));
    let mut launched = open(node, &request, &[])?;
    launched.work = match launched.work {
        Some(Work::Job(spec)) => Some(Work::Job(Box::new(change(*spec)))),
        other => other,
    };
    let history = node.history()?;
    let record = match history {
        Some(history) => history.begin_as(&request, launched.own_snapshots(), submission)?,
        None => node.unrecorded(&request),
    };
    let id = record.id.clone();
    let started = match prospect(node, &request, &launched, free) {
        Ok(prospect) => begin(node, request, record, launched, prospect),
        Err(error) => Err(error),
    };
    if let (Err(_), Some(history)) = (&started, history) {
        // It never started.
        history.forget(&id)?;
    }
    started
}

/// Opens a job that is to run: its output can be made, as far as that shows before it has rows.
fn open(node: &Node, request: &JobRequest, own: &[OwnSnapshot]) -> Result<Launched, JobError> {
    request.check()?;
    check_files(request)?;
    Launched::open(request, own, &node.site)
}

/// The cores that other processes leave, as the governor has measured after its first cycle.
fn free_cores(node: &Node) -> FreeCores {
    let latest = node.governor().and_then(|governor| governor.latest());
    match latest {
        Some(latest) => FreeCores::beside(latest.others_cores),
        None => FreeCores::start(),
    }
}

/// See [`Node::expect`].
pub(super) fn expect(
    node: &Node,
    request: &JobRequest,
) -> Result<(Expectation, Vec<ReadInput>), JobError> {
    let free = free_cores(node);
    let launched = open(node, request, &[])?;
    if let Some(Work::Job(spec)) = &launched.work {
        spec.output.check().map_err(SubmitError::Output)?;
    }
    let prospect = prospect(node, request, &launched, Some(free))?;
    let Some(expected) = prospect.expected else {
        unreachable!("it was asked for");
    };
    Ok((expected, prospect.inputs))
}

/// See [`Node::restart`].
pub(super) fn restart(node: &Node, id: &str) -> Result<Restarted, JobError> {
    let record = node.job(id)?;
    node.check_not_running(&record)?;
    let history = node.recorded()?;
    let there = |request: &JobRequest| output_is_there(request, record.written_us, &node.site);
    let request = match fate(&record, there)? {
        Fate::Start(request) => request,
        Fate::Succeeded(request) => {
            let report = json!({"outcome": {"kind": "succeeded"}});
            node.end_unstarted(&record, RecordState::Succeeded, report)?;
            let record = Box::new(record);
            return Ok(Restarted::HadSucceeded { record, request });
        }
        Fate::GiveUp(cause) => {
            node.end_unstarted(&record, RecordState::Failed, failed(&cause))?;
            return Ok(Restarted::GivenUp { cause });
        }
    };
    let free = request.goal_s.map(|_| free_cores(node));
    let started = open(node, &request, &record.own_snapshots).and_then(|launched| {
        let again = history.begin_again(&record, launched.own_snapshots())?;
        let prospect = prospect(node, &request, &launched, free)?;
        begin(node, *request, again, launched, prospect)
    });
    if let Err(error) = &started {
        let again = history.job(&record.id)?.unwrap_or(record);
        node.end_unstarted(&again, RecordState::Failed, failed(&error.to_string()))?;
    }
    started.map(Restarted::Runs)
}
