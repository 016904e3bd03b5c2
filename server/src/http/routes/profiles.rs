//! Profiles of applications: the measured times of their tasks.

use axum::extract::State;
use ebb_jobs::history::ProfileRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json, work};
use super::{At, Served};
use crate::jobs::ReadJobs;
use crate::node::Node;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(profiles))
}

/// Lists the measured times of the tasks of applications
#[utoipa::path(
    get, path = "/v1/profiles", operation_id = "list_profiles", tag = "jobs",
    responses((status = 200, description = "A profile per work", body = [ProfileRecord]))
)]
async fn profiles(State(Served { node, .. }): At) -> Answer<Vec<ProfileRecord>> {
    work(node, Node::profiles).await.map(Json)
}
