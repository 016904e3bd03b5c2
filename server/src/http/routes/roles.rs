//! CQL roles. A token may belong to one.

use std::sync::Arc;

use axum::extract::State;
use ebb_model::access::Role;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json, work};
use super::{At, Served};
use crate::http::wire::{RoleList, RoleView};

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Lists the CQL roles, ordered by name
#[utoipa::path(
    get, path = "/v1/roles", operation_id = "list_roles", tag = "session",
    responses((status = 200, description = "All roles", body = RoleList)),
)]
async fn list(State(Served { node, .. }): At) -> Answer<RoleList> {
    let roles = work(node, |node| {
        if node.db().is_none() {
            return Ok(Vec::new());
        }
        let state = node.catalog()?.roles().state();
        let view = |(name, role): (&Arc<str>, &Arc<Role>)| RoleView {
            name: name.to_string(),
            id: format!("{:016x}", role.id),
            can_login: role.can_login,
            is_superuser: role.is_superuser,
        };
        Ok(state.roles().iter().map(view).collect())
    });
    roles.await.map(|roles| Json(RoleList { roles }))
}
