//! Profiles of applications: the measured times of their tasks.

use std::collections::HashSet;

use axum::extract::{Extension, State};
use ebb_jobs::JobError;
use ebb_jobs::history::ProfileRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::JsonBytes;
use super::paging::{PageRequest, Paged};
use super::{At, Served};
use crate::http::outline::is_open_to;
use crate::http::problem::Problem;
use crate::http::wire::ProfileList;
use crate::http::work_limits::WorkKind;
use crate::jobs::ReadJobs;
use crate::node::Node;
use crate::tokens::{Principal, Scope};

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(profiles))
}

/// Lists the measured times of the tasks of applications, ordered by application and job
///
/// There is a profile for each application and input. A profile that is measured again while pages are read
/// may be on two of them. A token of a role lists only profiles of jobs that are in the history and whose
/// inputs the role may read, unless the token has scope `admin`.
#[utoipa::path(
    get, path = "/v1/profiles", operation_id = "list_profiles", tag = "jobs",
    params(Paged),
    responses((status = 200, description = "A page of them", body = ProfileList))
)]
async fn profiles(
    State(served): At,
    Extension(principal): Extension<Principal>,
    request: PageRequest,
) -> Result<JsonBytes, Problem> {
    let list = served.json_work(WorkKind::JobReads, move |node| {
        let mut all = profiles_for(&principal, node)?;
        all.sort_by_cached_key(place);
        let (profiles, next) = request.of(all, place);
        Ok(ProfileList { profiles, next })
    });
    list.await
}

/// Returns the profiles that the principal may see. Without scope `admin`, a token of a role sees
/// the profile of a job only if it may see the options of the job in the history. The check uses
/// the record of the job because it names the tables that the job read. The profile only describes
/// the input in words.
fn profiles_for(principal: &Principal, node: &Node) -> Result<Vec<ProfileRecord>, JobError> {
    let mut profiles = node.profiles()?;
    if principal.role.is_none() || principal.scope == Scope::Admin {
        return Ok(profiles);
    }
    let mut jobs = node.jobs()?;
    jobs.retain(|job| is_open_to(principal, job, node.db()));
    let open: HashSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    profiles.retain(|profile| open.contains(profile.job.as_str()));
    Ok(profiles)
}

/// Returns the key by which lists of profiles are ordered; the cursor of the next page is such a
/// key. It is unique, because a job measures one profile.
fn place(profile: &ProfileRecord) -> String {
    format!("{}/{}", profile.application, profile.job)
}
