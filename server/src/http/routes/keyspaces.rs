//! The keyspaces of the database.

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json};
use super::paging::{PageRequest, Paged};
use super::{At, Served};
use crate::http::wire::Keyspaces;
use crate::http::work_limits::WorkKind;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(keyspaces))
}

/// Lists the names of the keyspaces, in order
#[utoipa::path(
    get, path = "/v1/keyspaces", operation_id = "list_keyspaces", tag = "tables",
    params(Paged),
    responses((status = 200, description = "A page of them", body = Keyspaces))
)]
async fn keyspaces(State(served): At, request: PageRequest) -> Answer<Keyspaces> {
    let all = served.work(WorkKind::SchemaReads, |node| {
        Ok(node.db().map(|db| db.keyspaces()).unwrap_or_default())
    });
    let (keyspaces, next) = request.of(all.await?, String::clone);
    Ok(Json(Keyspaces { keyspaces, next }))
}
