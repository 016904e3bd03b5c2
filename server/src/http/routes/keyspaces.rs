//! The keyspaces of the database.

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json};
use super::{At, Served};
use crate::http::wire::Keyspaces;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(keyspaces))
}

/// The names of the keyspaces
#[utoipa::path(
    get, path = "/v1/keyspaces", operation_id = "list_keyspaces", tag = "tables",
    responses((status = 200, description = "Their names", body = Keyspaces))
)]
async fn keyspaces(State(Served { node, .. }): At) -> Answer<Keyspaces> {
    let keyspaces = node.db().map(|db| db.keyspaces()).unwrap_or_default();
    Ok(Json(Keyspaces { keyspaces }))
}
