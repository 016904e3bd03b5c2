//! Sessions of browsers: login with a token, logout, and the principal of a request.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Extension;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Served;
use super::answer::{Body, Json, json_of};
use crate::http::access::{Access, Peer, invalid_token};
use crate::http::problem::Problem;
use crate::tokens::{Principal, Scope, Token};

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(show, begin, end))
}

/// The body of a request to log in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    /// A token, as `ebb token create` printed it.
    token: String,
}

/// The principal of a request: who sent it, and what it may do.
#[derive(Debug, Serialize, ToSchema)]
struct SessionView {
    /// The scope of the request: that of the token, but at most `jobs` for a role that is no superuser.
    scope: Scope,
    /// The name of the token, as its creator chose it; `the server's user` over the Unix socket.
    name: String,
    /// The CQL role that the token belongs to; `null` for a token without a role, which is valid only on a
    /// server whose CQL clients do not log in.
    role: Option<String>,
}

impl From<Principal> for SessionView {
    fn from(principal: Principal) -> Self {
        Self {
            scope: principal.scope,
            name: principal.name,
            role: principal.role.map(|role| role.name),
        }
    }
}

type Set = [(HeaderName, HeaderValue); 1];

/// Shows the principal of the request
#[utoipa::path(
    get, path = "/v1/session", operation_id = "show_session", tag = "session",
    responses((status = 200, description = "The principal", body = SessionView)),
)]
async fn show(Extension(principal): Extension<Principal>) -> Json<SessionView> {
    Json(principal.into())
}

/// Logs in with a token
///
/// The response sets a cookie. Requests of this server's pages with the cookie may do what the token permits.
/// If clients of CQL log in, the token must belong to a role (otherwise 401).
#[utoipa::path(
    post, path = "/v1/session", operation_id = "begin_session", tag = "session", security(),
    request_body = Login,
    responses((status = 200, description = "The principal", body = SessionView,
        headers(("set-cookie" = String, description = "The cookie of the session")))),
)]
async fn begin(
    access: Option<Extension<Arc<Access>>>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<(Set, Json<SessionView>), Problem> {
    let login: Login = json_of(body)?;
    // Requests over the socket need no session.
    let Extension(access) = access.ok_or_else(invalid_token)?;
    let token: Result<Token, ()> = login.token.trim().parse();
    let token = token.map_err(|()| invalid_token())?;
    let principal = access.principal(&token, None, peer).await?;
    access.note_login(principal.clone(), peer);
    let session = access.sessions.begin(token, Instant::now());
    let set = [(SET_COOKIE, access.cookie.set(&session))];
    Ok((set, Json(principal.into())))
}

/// Logs out
#[utoipa::path(
    delete, path = "/v1/session", operation_id = "end_session", tag = "session", security(),
    responses((status = 204, description = "The session has ended")),
)]
async fn end(
    access: Option<Extension<Arc<Access>>>,
    headers: HeaderMap,
) -> (StatusCode, HeaderMap) {
    let mut set = HeaderMap::new();
    // Clients of the socket have no sessions, and so no cookie.
    if let Some(Extension(access)) = access {
        if let Some(session) = access.cookie.find(&headers) {
            access.sessions.end(&session);
        }
        set.insert(SET_COOKIE, access.cookie.delete());
    }
    (StatusCode::NO_CONTENT, set)
}
