//! The configuration of the server.

use axum::extract::{Extension, State};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json};
use super::{At, Served};
use crate::http::permits::check_admin;
use crate::http::wire::Configuration;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Shows the configuration of the server, with the origin of each value
///
/// It takes a token for scope `admin`, because settings have paths of the server's machine.
#[utoipa::path(
    get, path = "/v1/config", operation_id = "show_config", tag = "config",
    responses((status = 200, description = "The settings in force", body = Configuration)),
)]
async fn show(
    State(Served { configuration, .. }): At,
    Extension(principal): Extension<Principal>,
) -> Answer<Configuration> {
    check_admin(&principal)?;
    Ok(Json(Configuration::clone(&configuration)))
}
