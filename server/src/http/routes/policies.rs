//! The scheduling policies.

use axum::extract::State;
use ebb_scheduler::policy::descriptors;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Json;
use super::{At, Served};

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(list))
}

/// The scheduling policies.
#[derive(Debug, Serialize, ToSchema)]
struct Policies {
    /// The name of the policy by which jobs of this server share CPU time.
    current: &'static str,
    /// All policies that a server can be started with.
    policies: Vec<PolicyView>,
}

/// A scheduling policy.
#[derive(Debug, Serialize, ToSchema)]
struct PolicyView {
    /// The name of the policy, as the server's options take it.
    name: &'static str,
    /// A summary of the policy in one sentence.
    summary: &'static str,
    /// The paper that the policy comes from.
    paper: &'static str,
}

/// Lists the scheduling policies
#[utoipa::path(
    get, path = "/v1/policies", operation_id = "list_policies", tag = "jobs",
    responses((status = 200, description = "The policies", body = Policies)),
)]
async fn list(State(Served { node, .. }): At) -> Json<Policies> {
    let policies = descriptors().into_iter().map(|policy| PolicyView {
        name: policy.name,
        summary: policy.summary,
        paper: policy.paper,
    });
    Json(Policies {
        current: node.policy(),
        policies: policies.collect(),
    })
}
