//! Requests to a node, and its answers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Extension, Path, Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, http};
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_jobs::{Failure, JobError};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::health::{Health, ready};
use super::problem::{Problem, broken};
use super::wire::{Cancelled, Estimate, JobList, JobView, Keyspaces, RestartView};
use crate::metrics::{Format, Metrics};
use crate::node::{Node, Restarted};
use crate::tokens::Scope;

/// How long a request may be, in bytes. A long one names many files.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// How long a request may wait for the end of a job.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// All routes, over a node and its numbers.
pub(super) fn routes(node: Arc<Node>, metrics: Arc<Metrics>) -> Router {
    let numbers = Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics);
    Router::new()
        .route("/health/live", get(async || Json(Health::GOOD)))
        .route("/health/ready", get(is_ready))
        .route("/v1/jobs", get(list).post(submit))
        .route("/v1/jobs/estimate", post(estimate))
        .route("/v1/jobs/{id}", get(show).delete(cancel))
        .route("/v1/jobs/{id}/attempts", get(attempts))
        .route("/v1/jobs/{id}/restart", post(restart))
        .route("/v1/jobs/{id}/discard", post(discard))
        .route("/v1/profiles", get(profiles))
        .route("/v1/keyspaces", get(keyspaces))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(node)
        .merge(numbers)
}

type At = State<Arc<Node>>;
type Answer<T> = Result<Json<T>, Problem>;

/// A value as the body of a response.
struct Json<T>(T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => {
                let json = HeaderValue::from_static("application/json");
                ([(CONTENT_TYPE, json)], body).into_response()
            }
            Err(error) => broken(error).into_response(),
        }
    }
}

/// Does what may wait for the disk, on a thread for such work.
async fn work<T: Send + 'static>(
    node: Arc<Node>,
    work: impl FnOnce(&Node) -> Result<T, JobError> + Send + 'static,
) -> Result<T, Problem> {
    let done = spawn_blocking(move || work(&node)).await;
    done.map_err(broken)?.map_err(Problem::from)
}

/// The job request that a body is, of somebody with this scope.
fn request_of(scope: Scope, body: Result<Bytes, BytesRejection>) -> Result<JobRequest, Problem> {
    let body = body.map_err(|rejected| {
        Problem::new(rejected.status(), Failure::Invalid, rejected.body_text())
    })?;
    let value = serde_json::from_slice(&body);
    let value = value.map_err(|error| Problem::invalid(format!("the body is no JSON: {error}")))?;
    let request = JobRequest::from_json(value).map_err(JobError::from)?;
    if request.output.to == OutputPlace::Terminal {
        let text = "a server has no terminal for the rows: name a file, a folder or a table";
        return Err(JobError::senseless(text).into());
    }
    if scope < Scope::Admin && request.names_files() {
        let text = "it reads or writes files of the server's machine, which takes a token for \
                    scope admin; tables do not";
        return Err(Problem::new(StatusCode::FORBIDDEN, Failure::Invalid, text));
    }
    Ok(request)
}

async fn submit(
    State(node): At,
    Extension(scope): Extension<Scope>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, [(http::HeaderName, String); 1], Json<JobView>), Problem> {
    let request = request_of(scope, body)?;
    let view = work(node, move |node| {
        let job = node.submit(request)?;
        Ok(JobView::of(&job, node.policy()))
    });
    let view = view.await?;
    let place = format!("/v1/jobs/{}", view.record.id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(view)))
}

async fn estimate(
    State(node): At,
    Extension(scope): Extension<Scope>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<Estimate> {
    let request = request_of(scope, body)?;
    let estimate = work(node, move |node| {
        let (expected, inputs) = node.expect(&request)?;
        Ok(Estimate::new(&expected, inputs))
    });
    estimate.await.map(Json)
}

async fn list(State(node): At) -> Answer<JobList> {
    let jobs = work(node, |node| {
        let jobs = node.jobs()?.into_iter();
        let view = |record: ebb_jobs::history::JobRecord| match node.running(&record.id) {
            Some(job) => JobView::of(&job, node.policy()),
            None => JobView::remembered(record),
        };
        Ok(JobList {
            jobs: jobs.map(view).collect(),
        })
    });
    jobs.await.map(Json)
}

/// How a job is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Look {
    /// How long to wait for its end, in milliseconds.
    #[serde(default)]
    wait_ms: u64,
}

async fn show(
    State(node): At,
    Path(id): Path<String>,
    look: Result<Query<Look>, QueryRejection>,
) -> Answer<JobView> {
    let Query(look) = look.map_err(|rejected| Problem::invalid(rejected.body_text()))?;
    // `last` is known by its id only then.
    let record = match node.running(&id) {
        Some(job) => job.record().clone(),
        None => work(Arc::clone(&node), move |node| node.job(&id)).await?,
    };
    let Some(job) = node.running(&record.id) else {
        return Ok(Json(JobView::remembered(record)));
    };
    let wait = Duration::from_millis(look.wait_ms).min(WAIT_MAX);
    // Whether it ended or not, its view says so.
    let _ = tokio::time::timeout(wait, job.ended()).await;
    Ok(Json(JobView::of(&job, node.policy())))
}

async fn cancel(State(node): At, Path(id): Path<String>) -> Answer<Cancelled> {
    let stopping = work(node, move |node| node.cancel(&id)).await?;
    Ok(Json(Cancelled { stopping }))
}

async fn attempts(State(node): At, Path(id): Path<String>) -> Result<impl IntoResponse, Problem> {
    let attempts = work(node, move |node| {
        let id = node.job(&id)?.id;
        node.attempts(&id)
    });
    attempts.await.map(Json)
}

async fn restart(State(node): At, Path(id): Path<String>) -> Answer<RestartView> {
    let restarted = work(node, move |node| {
        let id = node.job(&id)?.id;
        Ok(match node.restart(&id)? {
            Restarted::Runs(job) => RestartView::Runs(JobView::of(&job, node.policy())),
            Restarted::HadSucceeded { record, .. } => RestartView::HadSucceeded(record),
            Restarted::GivenUp { cause } => RestartView::GivenUp(cause),
        })
    });
    restarted.await.map(Json)
}

async fn discard(State(node): At, Path(id): Path<String>) -> Answer<JobView> {
    let record = work(node, move |node| node.discard(&id)).await?;
    Ok(Json(JobView::remembered(record)))
}

async fn profiles(State(node): At) -> Result<impl IntoResponse, Problem> {
    work(node, Node::profiles).await.map(Json)
}

async fn keyspaces(State(node): At) -> Answer<Keyspaces> {
    let keyspaces = node.db().map(|db| db.keyspaces()).unwrap_or_default();
    Ok(Json(Keyspaces { keyspaces }))
}

async fn is_ready(State(node): At) -> Answer<Health> {
    let health = spawn_blocking(move || ready(&node)).await;
    health.map_err(broken)?.map(Json)
}

async fn scrape(
    State(metrics): State<Arc<Metrics>>,
    headers: http::HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let text = spawn_blocking(move || metrics.text(format)).await;
    let text = text.map_err(broken)?.map_err(broken)?;
    Ok(([(CONTENT_TYPE, format.media_type())], text))
}

async fn no_route(uri: http::Uri) -> Problem {
    let detail = format!("there is no {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, Failure::NotFound, detail)
}

async fn no_method(method: http::Method, uri: http::Uri) -> Problem {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, Failure::Invalid, detail)
}
