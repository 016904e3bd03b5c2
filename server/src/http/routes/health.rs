//! Health checks, for supervisors and load balancers.

use axum::extract::State;
use axum::http::StatusCode;
use ebb_jobs::Failure;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json, blocking};
use super::{At, Served};
use crate::http::problem::Problem;
use crate::node::Node;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(live))
        .routes(routes!(is_ready))
}

/// The response of a healthy server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
}

const GOOD: Health = Health { status: "ok" };

/// Whether the process answers
#[utoipa::path(
    get, path = "/health/live", operation_id = "live", tag = "health", security(),
    responses((status = 200, description = "It does", body = Health))
)]
async fn live() -> Json<Health> {
    Json(GOOD)
}

/// Whether it takes writes and jobs
#[utoipa::path(
    get, path = "/health/ready", operation_id = "ready", tag = "health", security(),
    responses(
        (status = 200, description = "It does", body = Health),
        (status = 503, description = "It does not, says why", body = Problem,
            content_type = "application/problem+json"),
    )
)]
async fn is_ready(State(Served { node, .. }): At) -> Answer<Health> {
    let health = blocking(move || ready(&node)).await?;
    health.map(Json)
}

/// Whether a node takes writes and jobs.
fn ready(node: &Node) -> Result<Health, Problem> {
    let unready =
        |detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, Failure::Closed, detail);
    if node.is_closed() {
        return Err(unready("the server is stopping".to_string()));
    }
    match node.db().and_then(|db| db.stats().read_only_cause) {
        Some(cause) => Err(unready(format!("the store takes no writes: {cause}"))),
        None => Ok(GOOD),
    }
}
