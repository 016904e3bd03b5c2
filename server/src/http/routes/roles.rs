//! CQL roles. A token may belong to one.

use std::sync::Arc;

use axum::extract::{Extension, State};
use ebb_model::access::Role;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json};
use super::paging::{PageRequest, Paged};
use super::{At, Served};
use crate::http::permits::lists_all_roles;
use crate::http::wire::{RoleList, RoleView};
use crate::http::work_limits::WorkKind;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Lists the CQL roles, ordered by name
///
/// With a token of a role, these are the role itself and the roles that were granted to it, unless it has
/// DESCRIBE on all roles.
#[utoipa::path(
    get, path = "/v1/roles", operation_id = "list_roles", tag = "session",
    params(Paged),
    responses((status = 200, description = "A page of them", body = RoleList)),
)]
async fn list(
    State(served): At,
    Extension(principal): Extension<Principal>,
    request: PageRequest,
) -> Answer<RoleList> {
    let page = served.work(WorkKind::SchemaReads, move |node| {
        if node.db().is_none() {
            return Ok((Vec::new(), None));
        }
        let state = node.catalog()?.roles().state();
        let view = |(name, role): (&Arc<str>, &Arc<Role>)| RoleView {
            name: name.to_string(),
            id: format!("{:016x}", role.id),
            can_login: role.can_login,
            is_superuser: role.is_superuser,
        };
        let limited = (principal.role.as_ref()).filter(|_| !lists_all_roles(&principal));
        let own = limited.map(|role| state.roles().of(&role.name, false));
        let is_listed = |name: &str| own.as_ref().is_none_or(|own| own.contains(name));
        let all = state.roles().iter();
        let all = all.filter(|(name, _)| is_listed(name)).map(view);
        Ok(request.of(all, |role| role.name.clone()))
    });
    let (roles, next) = page.await?;
    Ok(Json(RoleList { roles, next }))
}
