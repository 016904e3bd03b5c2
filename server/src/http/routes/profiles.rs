//! Profiles of applications: the measured times of their tasks.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use ebb_jobs::history::ProfileRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json, work};
use super::paging::{Paged, page_request};
use super::{At, Served};
use crate::http::wire::ProfileList;
use crate::jobs::ReadJobs;
use crate::node::Node;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(profiles))
}

/// Lists the measured times of the tasks of applications, ordered by application and job
///
/// There is a profile for each application and input. A profile that is measured again while pages are
/// read may be on two of them.
#[utoipa::path(
    get, path = "/v1/profiles", operation_id = "list_profiles", tag = "jobs",
    params(Paged),
    responses((status = 200, description = "A page of them", body = ProfileList))
)]
async fn profiles(
    State(Served { node, .. }): At,
    paged: Result<Query<Paged>, QueryRejection>,
) -> Answer<ProfileList> {
    let request = page_request(paged)?;
    let mut all = work(node, Node::profiles).await?;
    all.sort_by_cached_key(place);
    let (profiles, next) = request.of(all, place);
    Ok(Json(ProfileList { profiles, next }))
}

/// Returns the place of a profile in lists. It is unique, because a job measures one profile.
fn place(profile: &ProfileRecord) -> String {
    format!("{}/{}", profile.application, profile.job)
}
