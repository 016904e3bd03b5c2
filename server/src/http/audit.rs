//! Entries in the audit log for changes over HTTP and over the socket: one before the change is made,
//! and one with its result. Changes that a handler refuses have entries too. Reads with a token
//! have lines in the ordinary log, at the level debug.

use std::io;
use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::header::LOCATION;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;

use super::access::{Peer, is_change};
use super::problem::Problem;
use super::session::SESSION;
use super::slow::logged_path;
use super::work_limits::{WorkKind, WorkLimits};
use crate::audit::{AuditLog, Entry, EntryKind};
use crate::tokens::Principal;

/// The state of the middleware [`log()`]: the audit log, and the limits on threads that write to it.
#[derive(Debug, Clone)]
pub(super) struct Audit {
    pub(super) log: Arc<AuditLog>,
    pub(super) limits: WorkLimits,
}

/// Adds two entries to the audit log for a request that changes something, except a login or logout: one
/// before it is executed, and one with its result. If the first one cannot be written, the request is
/// refused, unless the disk is full and the request may free space. A request that changes nothing is only
/// logged, if it has a token.
pub(super) async fn log(
    State(Audit { log, limits }): State<Audit>,
    Extension(peer): Extension<Peer>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if !is_change(&request) {
        return read(&principal, peer, request, next).await;
    }
    // Logins are noted where their tokens are checked. Clients without a token may send any number of
    // them, which must not fill the log.
    if path == SESSION {
        return next.run(request).await;
    }
    let frees_space = frees_space(request.method(), path);
    let entry = Entry {
        action: format!("{} {}", request.method(), logged_path(request.uri())),
        ..entry_of(EntryKind::Request, principal, peer)
    };
    let begin = move || log.begin(entry, frees_space);
    let begun = limits.run(WorkKind::AuditEntries, begin);
    let mut begun = match begun.await {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => return not_written(&error).into_response(),
        Err(problem) => return problem.into_response(),
    };
    let response = next.run(request).await;
    let made = response.headers().get(LOCATION);
    let entry = &mut begun.entry;
    entry.made = made.and_then(|made| made.to_str().ok()).map(str::to_string);
    entry.status = Some(response.status().as_u16());
    tracing::info!(
        target: "http",
        user = entry.role,
        token = entry.token,
        name = entry.name,
        address = entry.address,
        request = entry.action,
        status = entry.status,
        made = entry.made,
        "change"
    );
    let result = result_of(response.status());
    let end = async move {
        let end = move || begun.end(result);
        limits.run_unrefused(WorkKind::AuditEntries, end).await
    };
    // In a task of its own: the entry gets the result although the client disconnects. An error is a panic, which
    // has printed itself.
    let _ = tokio::spawn(end).await;
    response
}

/// Executes a request that changes nothing. If it has a token, logs it at the level debug, without the
/// token's secret.
async fn read(principal: &Principal, peer: Peer, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let response = next.run(request).await;
    if !principal.id.is_empty() {
        let role = principal.role.as_ref();
        tracing::debug!(
            target: "http",
            user = role.map(|role| role.name.as_str()),
            token = principal.id,
            name = principal.name,
            address = peer.address.map(|address| address.to_string()),
            request = format!("{method} {}", logged_path(&uri)),
            status = response.status().as_u16(),
            "read"
        );
    }
    response
}

/// Returns an entry of this kind, with the client's principal and address.
pub(super) fn entry_of(kind: EntryKind, principal: Principal, peer: Peer) -> Entry {
    Entry {
        kind,
        token: (!principal.id.is_empty()).then_some(principal.id),
        role: principal.role.map(|role| role.name),
        name: Some(principal.name),
        address: peer.address.map(|address| address.to_string()),
        ..Entry::default()
    }
}

/// Returns whether a change may free disk space: it deletes something, or ends a job, which deletes the job's
/// temporary files.
fn frees_space(method: &Method, path: &str) -> bool {
    *method == Method::DELETE || path.ends_with("/cancel") || path.ends_with("/discard")
}

fn not_written(error: &io::Error) -> Problem {
    let failure = Failure::of(error);
    let status = match failure {
        Failure::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = format!("nothing was changed, because the audit log cannot be written: {error}");
    Problem::new(status, failure, text)
}

fn result_of(status: StatusCode) -> &'static str {
    if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
        "unauthorized"
    } else if status.is_client_error() {
        "invalid"
    } else if status.is_server_error() {
        "failed"
    } else {
        "done"
    }
}
