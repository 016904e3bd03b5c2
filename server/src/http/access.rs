//! Who may ask over TCP, where anybody on the machine can connect, a browser too.
//!
//! A request has to name a host that is meant: a page that has its own name resolve to this
//! machine does not get through. It has to show a token whose scope is enough. Only
//! whether the server is healthy may be asked without one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use tokio::task::spawn_blocking;

use super::problem::{Problem, broken};
use crate::tokens::{Scope, Token, WatchedTokens};

/// What may be asked without a token.
const OPEN: &str = "/health/";

/// What decides.
#[derive(Debug)]
pub(super) struct Access {
    pub tokens: WatchedTokens,
    /// Names of this server, beside `localhost` and addresses.
    pub hosts: Vec<String>,
}

/// Lets a request through with its scope, or answers why not.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let allowed = match access.asked(&request) {
        Ok(asked) => access.allow(asked).await,
        Err(problem) => Err(problem),
    };
    match allowed {
        Ok(scope) => {
            request.extensions_mut().insert(scope);
            next.run(request).await
        }
        Err(problem) => {
            let challenge = problem.status == StatusCode::UNAUTHORIZED.as_u16();
            let mut response = problem.into_response();
            if challenge {
                let bearer = HeaderValue::from_static("Bearer realm=\"ebb\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
            }
            response
        }
    }
}

/// What a request takes.
enum Asked {
    /// Anybody may.
    Open,
    /// A token, of this scope.
    With(Token, Scope),
}

impl Access {
    fn asked(&self, request: &Request) -> Result<Asked, Problem> {
        let host = (request.headers().get(HOST)).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| self.is_meant(host)) {
            let text = format!(
                "this server is not known as {:?}: ask by its address, or name it in the \
                 setting http-hosts",
                host.unwrap_or_default()
            );
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Err(Problem::new(status, Failure::Invalid, text));
        }
        if request.uri().path().starts_with(OPEN) {
            return Ok(Asked::Open);
        }
        let token = bearer(request.headers()).ok_or_else(|| {
            refused("show a token: Authorization: Bearer TOKEN; `ebb token create` makes one")
        })?;
        Ok(Asked::With(token, needed(request.method())))
    }

    async fn allow(self: &Arc<Self>, asked: Asked) -> Result<Scope, Problem> {
        let Asked::With(token, needed) = asked else {
            return Ok(Scope::Read);
        };
        let access = Arc::clone(self);
        let tokens = spawn_blocking(move || access.tokens.now()).await;
        let tokens = tokens.map_err(broken)?.map_err(broken)?;
        let scope = (tokens.scope_of(&token, SystemTime::now()))
            .ok_or_else(|| refused("there is no such token, or it has expired or was revoked"))?;
        if scope < needed {
            let text = format!("this token is for scope {scope}; it takes one for {needed}");
            return Err(Problem::new(StatusCode::FORBIDDEN, Failure::Invalid, text));
        }
        Ok(scope)
    }

    /// Whether a `Host` is this server's: an address, which no name can be made to mean, or
    /// one of its names.
    fn is_meant(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || (self.hosts.iter()).any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn refused(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, Failure::Invalid, detail)
}

/// The token that a request shows.
fn bearer(headers: &HeaderMap) -> Option<Token> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = scheme.eq_ignore_ascii_case("bearer").then_some(token)?;
    token.trim().parse().ok()
}

/// What a method takes.
fn needed(method: &Method) -> Scope {
    match *method {
        Method::GET | Method::HEAD => Scope::Read,
        _ => Scope::Jobs,
    }
}
