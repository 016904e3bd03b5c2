//! Authentication and authorization of requests over TCP: any process on the machine can connect,
//! browsers included.
//!
//! The `Host` of a request must be one of this server's names, which stops DNS rebinding: a web
//! page that has its own name resolve to this machine is refused. The request must carry a token
//! with a sufficient scope, or the cookie of a [session](super::session) that was begun with such
//! a token. With a cookie, only pages of this server can change anything. Health checks and the
//! files of the console need no token.
//!
//! A token may belong to a CQL role. It is valid while the role exists and may log in, and permits
//! what the role may do; scope `admin` takes effect only while the role is a superuser. On a server
//! whose clients log in, roles are the only principals: there a token without a role is not valid.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::extract::{Extension, Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;

use super::addresses::Admission;
use super::audit::entry_of;
use super::permits::{check_scope, role_is_gone};
use super::port::host_of;
use super::problem::{Problem, broken};
use super::session::{SESSION, SessionCookie, Sessions, is_other_page, is_own_page};
use super::work_limits::{WorkKind, WorkLimits};
use crate::audit::{AuditLog, Entry, EntryKind};
use crate::node::Node;
use crate::rates::Rates;
use crate::tokens::{ActingRole, Principal, Scope, Token, TokenRecord, WatchedTokens};

/// Prefixes of the paths that need no token, besides [`CONSOLE`].
const OPEN: [&str; 2] = ["/health/", "/assets/"];
/// The path of the console's page, which asks the user for a token and needs none itself.
const CONSOLE: &str = "/";

/// The most requests of one token that may come at once. An open console sends a few requests per
/// second.
const REQUESTS_BURST: f64 = 400.0;
/// The most requests of one token per second in the long run. Tests use a low rate, because a slow
/// machine cannot exceed the real one.
const REQUESTS_PER_S: f64 = if cfg!(test) { 1.0 } else { 200.0 };
/// The most requests with invalid tokens that may come from one address at once.
const FAILURES_BURST: f64 = 10.0;
/// The most requests with invalid tokens from one address per second in the long run.
const FAILURES_PER_S: f64 = 0.5;
/// The most lines of the ordinary log about invalid tokens: at once, and per second in the long run.
const FAILURE_LINES: (f64, f64) = (50.0, 10.0);

/// The checks of requests over TCP, with the tokens, sessions and rate limits that they use.
pub(super) struct Access {
    node: Arc<Node>,
    tokens: WatchedTokens,
    /// The names of this server that a `Host` header may have. The header may also have `localhost` or any IP
    /// address.
    hosts: Vec<String>,
    /// True if a token without a role is not valid.
    requires_roles: bool,
    pub sessions: Sessions,
    pub cookie: SessionCookie,
    requests: Rates<String>,
    failures: Rates<IpAddr>,
    failure_lines: Rates<()>,
    audit: Arc<AuditLog>,
    limits: WorkLimits,
}

/// The client of a connection, as far as the checks of its requests need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// The client's address; `None` for the Unix socket, whose clients are the server's own user.
    pub address: Option<IpAddr>,
}

/// The credential of a request. A stream of events checks it again from time to time.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    token: Token,
    /// The session cookie by which the token was found; `None` if the request has the token itself.
    cookie: Option<Token>,
}

/// Checks a request, and passes it on with its principal and credential as extensions. If the request is
/// refused, responds with the reason.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let allowed = match access.required(&request) {
        Ok(required) => access.allow(required, peer).await,
        Err(problem) => Err(problem),
    };
    match allowed {
        Ok((principal, credential)) => {
            let extensions = request.extensions_mut();
            extensions.insert(principal);
            if let Some(credential) = credential {
                if let Some(admission) = extensions.get::<Admission>() {
                    admission.note_credential();
                }
                extensions.insert(credential);
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl Access {
    /// Creates the checks for a server of `node` that accepts `tokens`. `hosts` are names of the server, in
    /// addition to `localhost` and IP addresses. With `requires_roles`, each token must belong to a role.
    /// `cookie` is the cookie of the server's sessions.
    pub(super) fn new(
        node: Arc<Node>,
        tokens: WatchedTokens,
        hosts: Vec<String>,
        requires_roles: bool,
        cookie: SessionCookie,
        audit: Arc<AuditLog>,
        limits: WorkLimits,
    ) -> Self {
        Self {
            node,
            tokens,
            hosts,
            requires_roles,
            sessions: Sessions::default(),
            cookie,
            requests: Rates::new(REQUESTS_BURST, REQUESTS_PER_S),
            failures: Rates::new(FAILURES_BURST, FAILURES_PER_S),
            failure_lines: Rates::new(FAILURE_LINES.0, FAILURE_LINES.1),
            audit,
            limits,
        }
    }

    /// Returns the credential of a request, and the least scope that it must have. Returns `None` if the
    /// request needs no credential: its path is open to every client, or it is a login or logout without a
    /// bearer token.
    ///
    /// # Errors
    /// 400 for several `Host` headers; 421 if the request does not name this server as its host; 401 if it has
    /// neither a well-formed token nor the cookie of a session; 403 if it changes something without a token,
    /// and a page of another site may have sent it.
    fn required(&self, request: &Request) -> Result<Option<(Credential, Scope)>, Problem> {
        let headers = request.headers();
        let host = named_host(request)?;
        if !host.is_some_and(|host| self.is_own_host(host)) {
            let text = format!(
                "{:?} is not a host name of this server: use its IP address, or add the name to \
                 the setting http-hosts",
                host.unwrap_or_default()
            );
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Err(Problem::new(status, Failure::Invalid, text));
        }
        let (path, method) = (request.uri().path(), request.method());
        // After the check of the host, which open paths need, too.
        if is_open(path) {
            return Ok(None);
        }
        let needed = needed(path, method);
        // A token counts before a cookie, and needs no check of the page that sends the request: a browser
        // adds cookies by itself, but no token.
        let sent = bearer(headers);
        if let Some(token) = sent.and_then(|text| text.parse::<Token>().ok()) {
            let credential = Credential {
                token,
                cookie: None,
            };
            return Ok(Some((credential, needed)));
        }
        let changes = !is_safe(method);
        if path == SESSION && changes {
            // A login has its token in the body, and a logout only ends the session of the cookie. A page of
            // another site cannot log a browser in or out.
            return if is_other_page(headers) {
                Err(other_page())
            } else {
                Ok(None)
            };
        }
        let credential = self.cookie.find(headers).and_then(|cookie| {
            let token = self.sessions.token(&cookie, Instant::now())?;
            let cookie = Some(cookie);
            Some(Credential { token, cookie })
        });
        match credential {
            Some(_) if changes && !is_own_page(headers) => Err(other_page()),
            Some(credential) => Ok(Some((credential, needed))),
            None if sent.is_some() => Err(refused(
                "this token is malformed: copy the whole line that `ebb token create` printed, \
                 ebb_ID_SECRET",
            )),
            None => Err(refused(
                "the request has no token: send the header Authorization: Bearer TOKEN; commands of \
                 ebb take the token from the environment variable EBB_TOKEN; `ebb token create` \
                 makes one",
            )),
        }
    }

    async fn allow(
        self: &Arc<Self>,
        required: Option<(Credential, Scope)>,
        peer: Peer,
    ) -> Result<(Principal, Option<Credential>), Problem> {
        let Some((credential, needed)) = required else {
            return Ok((Principal::anonymous(), None));
        };
        let Credential { token, cookie } = &credential;
        let principal = self.principal(token, cookie.as_ref(), peer).await?;
        check_scope(&principal, needed)?;
        Ok((principal, Some(credential)))
    }

    /// Returns whether a credential is still valid. Its session, if it has one, must not have
    /// ended. Its token must not have expired or been revoked. If the token belongs to a role, the
    /// role must still exist and be permitted to log in. Also returns false if these checks cannot
    /// be made.
    pub(super) async fn is_valid(self: &Arc<Self>, credential: &Credential) -> bool {
        let cookie = credential.cookie.as_ref();
        let is_over = |cookie| self.sessions.token(cookie, Instant::now()).is_none();
        if cookie.is_some_and(is_over) {
            return false;
        }
        let (access, token) = (Arc::clone(self), credential.token.clone());
        let check = move || access.find(&token);
        // Never refused: too many checks that wait are no reason to end a stream whose credential is valid.
        let found = self.limits.run_unrefused(WorkKind::Tokens, check).await;
        matches!(found, Ok(Ok(_)))
    }

    /// Returns the principal that a token stands for, and counts a request against the token's rate limit.
    /// `cookie` is that of the session by which the token was found; `None` if the request has the token itself.
    /// If the token is not valid any more, the session ends.
    ///
    /// # Errors
    /// 401 for an invalid token, for one whose role is gone or may not log in, and for one without a role on a
    /// server that requires roles; 429 if too many invalid tokens came from the peer's address, or too many
    /// requests with this token; 503 if too many checks of tokens wait; 500 when the tokens or roles cannot be
    /// read.
    pub(super) async fn principal(
        self: &Arc<Self>,
        token: &Token,
        cookie: Option<&Token>,
        peer: Peer,
    ) -> Result<Principal, Problem> {
        let problem = match self.known(token).await {
            Ok(principal) => {
                let taken = self.requests.take(principal.id.clone(), Instant::now());
                taken
                    .map_err(|wait_s| too_many("too many requests came with this token", wait_s))?;
                return Ok(principal);
            }
            Err(problem) => problem,
        };
        // Any other problem is a failure or an overload of the server, and no reason to limit the client.
        if problem.status != StatusCode::UNAUTHORIZED.as_u16() {
            return Err(problem);
        }
        self.note_refusal(token, peer, &problem);
        if let Some(cookie) = cookie {
            // No guess, because the client has logged in with this token. Pages show the login only after a 401,
            // and other clients of the address may have used up its limit.
            self.sessions.end(cookie);
        } else if let Some(address) = peer.address {
            let taken = self.failures.take(address, Instant::now());
            taken.map_err(|wait_s| {
                let cause = &problem.detail;
                let text = format!("{cause}; too many invalid tokens came from this address");
                too_many(&text, wait_s)
            })?;
        }
        if self.failure_lines.take((), Instant::now()).is_ok() {
            let address = peer.address.map(|address| address.to_string());
            tracing::warn!(target: "http", address, cause = problem.detail, "login refused");
        }
        Err(problem)
    }

    /// Notes in the audit log that a client has logged in with a token.
    pub(super) fn note_login(&self, principal: Principal, peer: Peer) {
        let entry = entry_of(EntryKind::Login, principal, peer);
        self.audit.note_login(entry);
    }

    /// Adds an entry to the audit log for a token that is refused because of `problem`.
    fn note_refusal(&self, token: &Token, peer: Peer, problem: &Problem) {
        self.audit.note_refusal(Entry {
            kind: EntryKind::Login,
            token: Some(token.id()),
            address: peer.address.map(|address| address.to_string()),
            cause: Some(problem.detail.clone()),
            ..Entry::default()
        });
    }

    async fn known(self: &Arc<Self>, token: &Token) -> Result<Principal, Problem> {
        let (access, token) = (Arc::clone(self), token.clone());
        let check = move || access.find(&token);
        self.limits.run(WorkKind::Tokens, check).await?
    }

    /// Returns the principal that a token stands for.
    ///
    /// # Errors
    /// 401 when the token is unknown or has expired, when its role is gone or may not log in, and when it has
    /// no role although the server requires roles; 500 when the tokens or roles cannot be read.
    fn find(&self, token: &Token) -> Result<Principal, Problem> {
        let tokens = self.tokens.now().map_err(broken)?;
        let record = tokens.record_of(token, SystemTime::now());
        self.principal_of(record.ok_or_else(invalid_token)?)
    }

    /// Returns the principal of a token. If the token acts as a role, the principal has the present
    /// permissions of that role, and the lower one of the token's scope and the role's scope.
    ///
    /// # Errors
    /// 401 when the role is gone (another one may have its name) or may not log in, and when the token has no
    /// role although the server requires roles; 500 when the role, or all roles, cannot be read.
    fn principal_of(&self, record: &TokenRecord) -> Result<Principal, Problem> {
        let of_token = Principal {
            id: record.id.clone(),
            name: record.name.clone(),
            scope: record.scope,
            role: None,
        };
        let Some(role) = &record.role else {
            // 401, as for a role that is gone: here, too, the token stands for no principal of this server.
            return if self.requires_roles {
                Err(refused(
                    "this token belongs to no role, and clients of this server log in as roles: \
                     make a token of a role with `ebb token create --role`",
                ))
            } else {
                Ok(of_token)
            };
        };
        let roles = self.node.catalog()?.roles().state();
        let granted = roles.granted(&role.name).filter(|granted| {
            let is_same = format!("{:016x}", granted.id) == role.id;
            is_same && granted.can_login
        });
        let Some(granted) = granted else {
            let name = &role.name;
            // The token is valid again once the record of the role is restored.
            if roles.hides(name) {
                let text = format!(
                    "role {name} of this token cannot be found, because some roles cannot be read: \
                     `ebb stats` shows the reason and the repair"
                );
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                return Err(Problem::new(status, Failure::Corrupt, text));
            }
            return Err(refused(&role_is_gone(name)));
        };
        let name = role.name.clone();
        let of_role = Principal::of_role(ActingRole { name, granted });
        Ok(Principal {
            scope: of_token.scope.min(of_role.scope),
            role: of_role.role,
            ..of_token
        })
    }

    /// Returns whether a `Host` header names this server: by an address, which DNS cannot redirect,
    /// or by one of its names.
    fn is_own_host(&self, host: &str) -> bool {
        let name = host_of(host);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || (self.hosts.iter()).any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Returns the host that a request names, with the port if the `Host` header has one; `None` if the request
/// names none. The host of an absolute URI takes precedence over the header (RFC 9112, section 3.2).
///
/// # Errors
/// When there are several `Host` headers: a proxy before this server may have used another one of them.
fn named_host(request: &Request) -> Result<Option<&str>, Problem> {
    let mut named = request.headers().get_all(HOST).iter();
    let header = named.next();
    if named.next().is_some() {
        return Err(Problem::invalid(
            "Host: the request has several such headers; send one",
        ));
    }
    let by_header = || header.and_then(|host| host.to_str().ok());
    let by_uri = request.uri().authority().map(Authority::host);
    Ok(by_uri.or_else(by_header))
}

fn refused(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, Failure::Invalid, detail)
}

/// Returns the error for a token that is not valid.
pub(super) fn invalid_token() -> Problem {
    refused("there is no such token, or it has expired or was revoked")
}

fn other_page() -> Problem {
    Problem::forbidden(
        "the request comes from a page of another site, or from a browser that does not name the \
         site: send a token instead of the cookie",
    )
}

fn too_many(text: &str, wait_s: f64) -> Problem {
    let wait_s = (wait_s.ceil() as u64).max(1);
    let text = format!("{text}: retry in {wait_s} s");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, Failure::Other, text).retry_after(wait_s)
}

/// Returns the text behind `Bearer` in the `Authorization` header; `None` if there is no such header, or if
/// it has another scheme.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns whether a method changes nothing.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns whether a path needs no token for any request. Requests to such a path change nothing.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.iter().any(|open| path.starts_with(open)) || path == CONSOLE
}

/// Returns whether a request counts as a change: whether it is a `POST` or `DELETE`. A `POST` that
/// only reads or computes its response does not count. Nor does a request to a path that needs no
/// token: clients without a token must not be able to fill the audit log.
pub(super) fn is_change(request: &Request) -> bool {
    let (method, path) = (request.method(), request.uri().path());
    let changes = matches!(*method, Method::POST | Method::DELETE);
    changes && !is_open(path) && !is_query(path)
}

/// Returns whether a `POST` to this path only reads or computes its response, and changes nothing.
fn is_query(path: &str) -> bool {
    if let Some(of_table) = path.strip_prefix("/v1/tables/") {
        let ends = ["/get", "/scan", "/loss"];
        return ends.iter().any(|end| of_table.ends_with(end));
    }
    ["/v1/jobs/estimate", "/v1/what-if"].contains(&path)
}

/// Returns whether a change at this path may carry an `Idempotency-Key`. A login may not: a key belongs to
/// a principal, which a login does not have yet, and the session cookie in its response must not be
/// stored.
pub(super) fn takes_key(path: &str) -> bool {
    path != SESSION && !is_query(path)
}

/// Returns the least scope that a request needs. Its handler may require a higher one.
fn needed(path: &str, method: &Method) -> Scope {
    // Every token may log out.
    let reads = is_safe(method) || path == SESSION;
    if reads { Scope::Read } else { Scope::Jobs }
}
