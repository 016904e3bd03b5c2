//! Health checks, for supervisors and load balancers.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Json;
use super::{At, Served, no_method, no_route};
use crate::http::problem::Problem;
use crate::http::readiness::Readiness;
use crate::http::work_limits::{WorkKind, WorkLimits};

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(live))
        .routes(routes!(is_ready))
}

/// Returns the routes of the health checks, and no other routes. `readiness` returns the server's present
/// readiness.
pub(in crate::http) fn health_routes(
    readiness: impl Fn() -> Readiness + Clone + Send + Sync + 'static,
) -> Router {
    let limits = WorkLimits::default();
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(move || ready(limits, readiness)))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
}

/// The response of `/health/live`, which any process that answers sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// Whether the process answers
#[utoipa::path(
    get, path = "/health/live", operation_id = "live", tag = "health", security(),
    responses((status = 200, description = "It does", body = Health))
)]
async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the server takes writes and jobs
#[utoipa::path(
    get, path = "/health/ready", operation_id = "ready", tag = "health", security(),
    responses(
        (status = 200, description = "It does; `degraded` with what is wrong", body = Readiness),
        (status = 503, description = "It does not, says why", body = Readiness),
    )
)]
async fn is_ready(State(Served { node, limits, .. }): At) -> Checked {
    ready(limits, move || Readiness::of(Some(&node))).await
}

/// The response to a readiness check: 200, or 503 if the server takes neither writes nor jobs.
type Checked = Result<(StatusCode, Json<Readiness>), Problem>;

async fn ready(
    limits: WorkLimits,
    readiness: impl FnOnce() -> Readiness + Send + 'static,
) -> Checked {
    // A change of the schema holds a lock while it waits for the disk.
    let readiness = limits.run(WorkKind::Health, readiness).await?;
    let status = if readiness.is_available() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Ok((status, Json(readiness)))
}
