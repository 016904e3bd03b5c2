//! Jobs: submit, list, show, cancel, restart, retry and discard them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use ebb_jobs::JobError;
use ebb_jobs::history::{ATTEMPTS_KEPT_MAX, JobRecord, RecordState, Submission, now_unix_ms};
use ebb_jobs::launch::OpenedTable;
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_tables::names::TableName;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, JsonBytes, Named, Params, json_of};
use super::paging::{limit_of, limit_within, page};
use super::{At, Served};
use crate::http::access::Peer;
use crate::http::idempotency::{KeyInHistory, OTHER_REQUEST};
use crate::http::job_views::{GatheredJobs, JobViews, ListedJob, page_json};
use crate::http::outline::{Reads, is_open_to, outline_of_attempt, shown_to};
use crate::http::paths;
use crate::http::permits::{
    check_admin, check_input_at, check_job, check_new_table, check_output_at, check_recorded_job,
};
use crate::http::problem::Problem;
use crate::http::roots::{Roots, check_no_credentials};
use crate::http::slow::note_wait_for_job;
use crate::http::wire::{AttemptList, Cancelled, JobList};
use crate::http::work_limits::WorkKind;
use crate::jobs::{Estimate, JobView, Jobs, RestartView};
use crate::node::Node;
use crate::tokens::{Principal, Scope};

/// The longest time for which a request waits for the end of a job.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The largest `wait_ms` that is accepted, a day. A request with a longer time than [`WAIT_MAX`] waits for
/// [`WAIT_MAX`] only.
const WAIT_MS_MAX: u64 = 86_400_000;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(list, submit))
        .routes(routes!(estimate))
        .routes(routes!(show))
        .routes(routes!(attempts))
        .routes(routes!(cancel))
        .routes(routes!(restart))
        .routes(routes!(retry))
        .routes(routes!(discard))
}

/// Checks that a job from `peer` may write files at the place of its output. A client of the socket is the
/// server's own user, who may write anywhere. Waits for the disk, as [`Roots::check_output`] does.
fn check_output(peer: Peer, roots: &Roots, request: &JobRequest) -> Result<(), Problem> {
    if peer.address.is_some() {
        roots.check_output(request)?;
    }
    Ok(())
}

/// Checks that the output of a job is not the terminal: a server has none to write to.
fn check_place(request: &JobRequest) -> Result<(), JobError> {
    if request.output.to == OutputPlace::Terminal {
        let text = "a server has no terminal for the rows: name a file, a folder or a table";
        return Err(JobError::senseless(text));
    }
    Ok(())
}

/// Parses a job request, and checks that the principal may use its inputs and its output. A job
/// that is only planned needs this, too. This does not check in which folder an output file lies.
pub(super) fn requested(
    principal: &Principal,
    peer: Peer,
    value: Value,
) -> Result<JobRequest, Problem> {
    let request = JobRequest::from_json(value).map_err(JobError::from)?;
    check_inputs(principal, peer, &request)?;
    Ok(request)
}

/// Checks that the principal may read the inputs of a job and write its output. Even a job that is only
/// planned needs this: the plan of a publication reads the target, which is its output.
fn check_inputs(principal: &Principal, peer: Peer, request: &JobRequest) -> Result<(), Problem> {
    if peer.address.is_some() {
        check_no_credentials(request)?;
    }
    check_job(principal, request)
}

/// Returns the check that the principal may read the tables that its job has opened, and write the
/// output table. That is enough for a job that is only planned.
pub(super) fn plan_check<'c>(
    node: &'c Node,
    principal: &'c Principal,
) -> impl Fn(&TableName, OpenedTable<'_>) -> Result<(), JobError> + 'c {
    move |name: &TableName, table: OpenedTable<'_>| match table {
        OpenedTable::Input(rows) => check_input_at(node, principal, name, rows),
        OpenedTable::Output(number) => check_output_at(node, principal, name, number),
    }
}

/// Returns the check of [`plan_check`] for a job that is to run: it also requires the permission to
/// create the output table, if that table is missing.
fn start_check<'c>(
    node: &'c Node,
    principal: &'c Principal,
) -> impl Fn(&TableName, OpenedTable<'_>) -> Result<(), JobError> + 'c {
    let check_plan = plan_check(node, principal);
    move |name: &TableName, table: OpenedTable<'_>| {
        check_plan(name, table)?;
        match table {
            OpenedTable::Output(None) => check_new_table(node, principal, name),
            OpenedTable::Input(_) | OpenedTable::Output(Some(_)) => Ok(()),
        }
    }
}

/// Returns the job that an earlier request with this key started, even if the server was restarted since
/// then. Returns `None` if there is no such job, or no key.
///
/// # Errors
/// When the earlier request was different.
fn earlier_job(node: &Node, submission: Option<&Submission>) -> Result<Option<JobView>, JobError> {
    let Some(by) = submission else {
        return Ok(None);
    };
    match node.submitted(&by.key, now_unix_ms())? {
        None => Ok(None),
        Some(job) if job.submission.as_ref() == Some(by) => node.view_of(job),
        Some(_) => Err(JobError::senseless(OTHER_REQUEST)),
    }
}

/// The response to the submission of a job: the status 201, a mark that the job's record has the
/// idempotency key, the header `Location` with the path of the job, and the job.
type CreatedJob = (
    StatusCode,
    Extension<KeyInHistory>,
    [(HeaderName, String); 1],
    Json<JobView>,
);

fn created(view: JobView) -> CreatedJob {
    let location = [(LOCATION, paths::job(&view.record.id))];
    let key = Extension(KeyInHistory);
    (StatusCode::CREATED, key, location, Json(view))
}

/// Makes a change to the job that `id` names, if the principal has scope `admin`, or may read the
/// inputs and write the output of the job. A backup or a verification requires scope `admin`, as it
/// did when it was requested.
async fn change_job<T: Send + 'static>(
    served: &Served,
    principal: Principal,
    id: String,
    change: impl FnOnce(&Node, &JobRecord) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let changed = served.checked_work(WorkKind::JobChanges, move |node| {
        let record = node.job(&id)?;
        if record.is_maintenance() {
            check_admin(&principal)?;
        } else if principal.scope < Scope::Admin {
            let request = record.request().map_err(JobError::from)?;
            check_recorded_job(&principal, &record, &request, node.db())?;
        }
        change(node, &record)
    });
    changed.await
}

/// Starts a job
///
/// A job that reads or writes files of the server's machine needs a token with scope `admin`, and
/// writes files below the folder for outputs only. A role needs SELECT on the tables that the job reads and
/// MODIFY on the one that it writes, and if that one is missing also CREATE on all tables of its keyspace.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "submit_job", tag = "jobs",
    request_body(content = JobRequest, example = json!({
        "application": {"wordcount": {"reduces": 2}},
        "inputs": [{"table": {"table": "shop.reviews"}}],
        "output": {"to": {"table": "shop.words"}},
        "directory": "/",
        "goal_s": 600.0
    })),
    responses((status = 201, description = "The job", body = JobView,
        headers(("location" = String, description = "The path of the job")))),
)]
async fn submit(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    submission: Option<Extension<Submission>>,
    body: Body,
) -> Result<CreatedJob, Problem> {
    let request = requested(&principal, peer, json_of(body)?)?;
    // An estimate writes no rows, so it may be of any output.
    check_place(&request)?;
    let submission = submission.map(|Extension(by)| by);
    let roots = Arc::clone(&served.roots);
    let submitted = served.checked_work(WorkKind::JobChanges, move |node| {
        check_output(peer, &roots, &request)?;
        if let Some(view) = earlier_job(node, submission.as_ref())? {
            return Ok(shown_to(&principal, view, node.db()));
        }
        let job = node.submit_as(request, submission, &start_check(node, &principal))?;
        Ok(job.view())
    });
    Ok(created(submitted.await?))
}

/// Estimates how long a job would take
#[utoipa::path(
    post, path = "/v1/jobs/estimate", operation_id = "estimate_job", tag = "jobs",
    request_body = JobRequest,
    responses((status = 200, description = "An estimate, or the reason why there is none",
        body = Estimate)),
)]
async fn estimate(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Answer<Estimate> {
    let request = requested(&principal, peer, json_of(body)?)?;
    let roots = Arc::clone(&served.roots);
    let estimate = served.checked_work(WorkKind::Plans, move |node| {
        check_output(peer, &roots, &request)?;
        Ok(node.estimate_as(&request, &plan_check(node, &principal))?)
    });
    estimate.await.map(Json)
}

/// The query parameters of the list of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// Lists only jobs in this state.
    #[param(inline)]
    state: Option<Standing>,
    /// Lists only jobs of this application.
    name: Option<String>,
    /// The largest number of jobs in the page, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The value of `next` in the page before this one.
    after: Option<String>,
}

/// The state of a job in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Standing {
    /// The job runs.
    Running,
    /// The job has ended.
    Ended,
    /// The job has not ended and does not run, because the server stopped before its end.
    Unfinished,
}

impl Standing {
    fn of(job: &JobView) -> Self {
        if job.record.state != RecordState::Started {
            Self::Ended
        } else if job.is_running() {
            Self::Running
        } else {
            Self::Unfinished
        }
    }
}

/// Lists the jobs in the history, the newest first
///
/// A page ends after `limit` jobs or 2 MiB of JSON, whichever comes first, and has one job at least.
///
/// With a token of a role, jobs over tables on which the role has no SELECT are shown without their options
/// and errors.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs",
    params(Listed),
    responses((status = 200, description = "A page of them", body = JobList)),
)]
async fn list(
    State(Served {
        node,
        job_views,
        limits,
        ..
    }): At,
    Extension(principal): Extension<Principal>,
    Params(listed): Params<Listed>,
) -> Result<JsonBytes, Problem> {
    let limit = limit_of(listed.limit)?;
    // Ids are compared as texts: most other texts would lie before all of them, or behind.
    let is_no_id =
        |after: &str| after.is_empty() || after.bytes().any(|byte| !byte.is_ascii_digit());
    if listed.after.as_deref().is_some_and(is_no_id) {
        return Err(Problem::senseless(
            "after: this is no `next` of a page of jobs",
        ));
    }
    let json = limits.run(WorkKind::JobReads, move || {
        let page = jobs_of(&node, &job_views, &listed, limit)?;
        page_json(&principal, node.db(), &page.jobs, page.next.as_deref())
    });
    json.await?.map(JsonBytes)
}

/// The number of records that a thread examines for a list of jobs before it yields its core. This
/// thread has a higher niceness than the threads that serve the load. Nevertheless, a thread of the
/// load that wakes up does not always preempt this thread at once: it may have to wait until the
/// kernel next chooses a thread.
const JOBS_BETWEEN_YIELDS: usize = 32;

/// Returns a page of the newest jobs that the query parameters choose, with at most `limit` jobs.
fn jobs_of(
    node: &Node,
    views: &JobViews,
    listed: &Listed,
    limit: usize,
) -> Result<GatheredJobs, Problem> {
    let mut page = GatheredJobs::new(limit);
    for (nth, row) in node.newest_rows(listed.after.as_deref())?.enumerate() {
        if nth % JOBS_BETWEEN_YIELDS == JOBS_BETWEEN_YIELDS - 1 {
            thread::yield_now();
        }
        let row = row?;
        let job = views.remembered(&row)?;
        if (listed.name.as_ref()).is_some_and(|name| *name != job.application) {
            continue;
        }
        // A job whose end is recorded still runs until its output table is free for another job.
        let (job, standing) = if job.has_ended && !node.is_running(&job.id) {
            (job, Standing::Ended)
        } else {
            // The rows are those of the time at which the list began. The job may have ended since
            // then.
            let record = row.record().map_err(JobError::from)?;
            let Some(view) = node.view_of(record)? else {
                continue;
            };
            (Arc::new(ListedJob::of(&view)?), Standing::of(&view))
        };
        if listed.state.is_some_and(|state| state != standing) {
            continue;
        }
        if !page.add(job) {
            break;
        }
    }
    Ok(page)
}

/// The query parameters of a request that shows one job.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Look {
    /// How long to wait for the end of the job, in milliseconds. A request waits for a minute at
    /// most.
    #[serde(default)]
    #[param(minimum = 0, maximum = 86_400_000)]
    wait_ms: u64,
}

/// Shows a job
///
/// With a token of a role that has no SELECT on a table that the job reads, the response lacks the
/// options and the errors of the job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "show_job", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job, or `last` for the latest"),
        Look,
    ),
    responses((status = 200, description = "The job", body = JobView)),
)]
async fn show(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named(id): Named<String>,
    Params(look): Params<Look>,
) -> Answer<JobView> {
    let view = view_of(&served, id, look).await?;
    if principal.role.is_none() {
        return Ok(Json(view));
    }
    // Looking up a table may wait until the creation or the drop of another one is on the disk.
    let shown = served.work(WorkKind::JobReads, move |node| {
        Ok(shown_to(&principal, view, node.db()))
    });
    shown.await.map(Json)
}

/// Returns a job as it is now. If `look` has a time to wait, returns the job as it is after that time, or at
/// its end if that comes first.
async fn view_of(served: &Served, id: String, look: Look) -> Result<JobView, Problem> {
    if look.wait_ms > WAIT_MS_MAX {
        let text = format!("wait_ms: {} is not from 0 to {WAIT_MS_MAX}", look.wait_ms);
        return Err(Problem::invalid(text));
    }
    let node = &served.node;
    // The record replaces `last` by the id of the job.
    let record = match node.running(&id) {
        Some(job) => job.record().clone(),
        None => {
            let found = served.work(WorkKind::JobReads, move |node| node.job(&id));
            found.await?
        }
    };
    let wait = Duration::from_millis(look.wait_ms).min(WAIT_MAX);
    // A job whose end is recorded still runs until its output table is free for another job.
    if let Some(job) = node.running(&record.id) {
        wait_at_most(wait, job.ended()).await;
        if job.end().is_none() {
            return Ok(job.view());
        }
        let view = served.work(WorkKind::JobReads, move |node| node.present_view(&job));
        return view.await;
    }
    if let Some(running) = node.running_maintenance(&record.id) {
        wait_at_most(wait, running.ended()).await;
    } else if record.state != RecordState::Started {
        return Ok(JobView::remembered(record));
    }
    // The history has the end of a job that has ended since its record was read.
    let view = served.work(WorkKind::JobReads, move |node| {
        node.existing_view_of(record)
    });
    view.await
}

/// Waits for `ended`, the end of a job, but for at most `wait`.
async fn wait_at_most(wait: Duration, ended: impl Future) {
    if wait.is_zero() {
        return;
    }
    note_wait_for_job();
    let _ = tokio::time::timeout(wait, ended).await;
}

/// Cancels a job
///
/// A job that reads or writes files of the server's machine, a backup and a verification need a token with
/// scope `admin`. A role needs SELECT on the tables that the job reads and MODIFY on the one that it writes.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job")),
    responses((status = 200, description = "Whether the job will stop", body = Cancelled),
        (status = 409, description = "The job has ended, or is unfinished and does not run", body = Problem,
            content_type = "application/problem+json")),
)]
async fn cancel(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named(id): Named<String>,
) -> Answer<Cancelled> {
    let cancelled = change_job(
        &served,
        principal,
        id,
        |node, job| Ok(node.cancel(&job.id)?),
    );
    let stopping = cancelled.await?;
    Ok(Json(Cancelled { stopping }))
}

/// The query parameters of the list of attempts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListedAttempts {
    /// The largest number of attempts in the page, 10,000 by default. The history keeps at most
    /// 10,000 attempts of a job.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
    /// The value of `next` in the page before this one.
    after: Option<String>,
}

/// Lists the attempts at the tasks of a job, ordered by the time of their ends
///
/// With a token of a role that has no SELECT on a table that the job reads, the attempts are shown
/// without their errors.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/attempts", operation_id = "list_attempts", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job, or `last` for the latest"),
        ListedAttempts,
    ),
    responses((status = 200, description = "A page of them", body = AttemptList)),
)]
async fn attempts(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named(id): Named<String>,
    Params(ListedAttempts { limit, after }): Params<ListedAttempts>,
) -> Result<JsonBytes, Problem> {
    let limit = limit_within(limit.unwrap_or(ATTEMPTS_KEPT_MAX), ATTEMPTS_KEPT_MAX)?;
    let list = served.json_work(WorkKind::JobReads, move |node| {
        let record = node.job(&id)?;
        let found = node.attempts_after(&record, after.as_deref(), limit + 1)?;
        let (attempts, next) = page(found, limit, |(place, _)| place.clone());
        let attempts = attempts.into_iter().map(|(_, attempt)| attempt);
        let attempts = if is_open_to(&principal, &record, node.db()) {
            attempts.collect()
        } else {
            attempts.map(outline_of_attempt).collect()
        };
        Ok(AttemptList { attempts, next })
    });
    list.await
}

/// Starts an unfinished job again
///
/// A job that reads or writes files of the server's machine, a backup and a verification need a token with
/// scope `admin`. A role needs the permissions that it needs to submit the job. Over the network, the output
/// must be one that a job submitted over the network may have.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/restart", operation_id = "restart_job", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job, or `last` for the latest")),
    responses((status = 200, description = "The result", body = RestartView),
        (status = 409, description = "The job runs or has ended", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "The server accepts no jobs, because it stops, or because hanging tasks \
            hold its threads or memory, or too many changes of jobs wait: the job stays unfinished", body = Problem,
            content_type = "application/problem+json"),
        (status = 507, description = "The disk is full: the job stays unfinished", body = Problem,
            content_type = "application/problem+json")),
)]
async fn restart(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    Named(id): Named<String>,
) -> Answer<RestartView> {
    let client = principal.clone();
    let roots = Arc::clone(&served.roots);
    let restarted = change_job(&served, principal, id, move |node, job| {
        // A restart only ends a backup, a restore or a verification: it starts none of them.
        if !job.is_maintenance() {
            // The job may have come over the socket, where an output may have any place.
            let request = job.request().map_err(JobError::from)?;
            check_inputs(&client, peer, &request)?;
            check_output(peer, &roots, &request)?;
        }
        let restarted = node.restart_as(&job.id, &start_check(node, &client))?;
        Ok(restarted.map(|job| job.view()))
    });
    restarted.await.map(Json)
}

/// Submits again, as another job, the request of a job that failed or was cancelled
///
/// It takes the token and the permissions that submitting the request would take, and those to see
/// the options of the job. An input without a named snapshot is read as it is now.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", operation_id = "retry_job", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job, or `last` for the latest")),
    responses((status = 201, description = "The new job", body = JobView,
        headers(("location" = String, description = "The path of the new job"))),
        (status = 409, description = "The job runs or has succeeded, or its output is there", body = Problem,
            content_type = "application/problem+json")),
)]
async fn retry(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    submission: Option<Extension<Submission>>,
    Named(id): Named<String>,
) -> Result<CreatedJob, Problem> {
    let submission = submission.map(|Extension(by)| by);
    let roots = Arc::clone(&served.roots);
    let retried = served.checked_work(WorkKind::JobChanges, move |node| {
        if let Some(view) = earlier_job(node, submission.as_ref())? {
            // The role may have lost its permissions since then, and the job may have an error by now.
            return Ok(shown_to(&principal, view, node.db()));
        }
        let record = node.job(&id)?;
        let request = node.request_to_retry(&record.id)?;
        check_inputs(&principal, peer, &request)?;
        // The response has the options of the job, which may be about tables that were dropped.
        Reads::of(&record).check(&principal, node.db())?;
        check_output(peer, &roots, &request)?;
        check_place(&request)?;
        let job = node.submit_as(request, submission, &start_check(node, &principal))?;
        Ok(job.view())
    });
    Ok(created(retried.await?))
}

/// Ends an unfinished job without starting it again
///
/// A job that reads or writes files of the server's machine, a backup and a verification need a token with
/// scope `admin`. A role needs SELECT on the tables that the job reads and MODIFY on the one that it writes.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/discard", operation_id = "discard_job", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job, or `last` for the latest")),
    responses((status = 200, description = "The job in the history", body = JobView),
        (status = 409, description = "The job runs or has ended", body = Problem,
            content_type = "application/problem+json")),
)]
async fn discard(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named(id): Named<String>,
) -> Answer<JobView> {
    let discarded = change_job(&served, principal, id, |node, job| {
        Ok(node.discard(&job.id)?)
    });
    discarded.await.map(Json)
}
