//! Slow requests, and how much of their time they waited for a thread and worked on it. The rest is
//! the time to receive the body and to serialize the response.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, Request, State};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::Response;
use tokio::task_local;

use super::access::Peer;
use crate::tokens::Principal;

/// The greatest length of a path in a line of a log, in bytes. Clients may send longer paths.
const PATH_BYTES_MAX: usize = 1024;

/// A request that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    /// The client's address; `None` for a client of the server's Unix socket.
    pub address: Option<IpAddr>,
    /// The id of the request's access token; `None` for a request over the server's Unix socket,
    /// and for one whose token is not checked (to an open path, a login or a logout).
    pub token: Option<String>,
    /// The role of the token, if it belongs to one.
    pub role: Option<String>,
    /// The name that the token's creator gave it. For a request over the Unix socket, the text `the
    /// server's user`, because only the user that runs the server can open the socket. Empty for a
    /// request whose token is not checked.
    pub name: String,
    pub method: String,
    /// The path without the query, at most 1 KiB.
    pub path: String,
    pub status: u16,
    /// The time in which the request was executed, until its response could be sent. It excludes the check of
    /// the token, the audit log and the look-up of a stored response.
    pub total: Duration,
    /// The part of `total` in which the request waited for a thread that may block on the disk.
    pub queued: Duration,
    /// The part of `total` in which the request ran on such a thread.
    pub worked: Duration,
}

type Observer = Arc<dyn Fn(&SlowRequest) + Send + Sync>;

/// The time from which a request counts as slow, and the observer of slow requests.
#[derive(Clone)]
pub struct SlowRequests {
    at_least: Duration,
    observer: Observer,
}

impl fmt::Debug for SlowRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("SlowRequests"))
            .field("at_least", &self.at_least)
            .finish_non_exhaustive()
    }
}

impl SlowRequests {
    /// Makes the server pass each request that takes at least `at_least` to `observer`, except requests that
    /// wait for the end of a job. `observer` runs on the thread that serves requests: it must not block, and
    /// has to limit how much it logs.
    pub fn new(
        at_least: Duration,
        observer: impl Fn(&SlowRequest) + Send + Sync + 'static,
    ) -> Self {
        Self {
            at_least,
            observer: Arc::new(observer),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    queued: Duration,
    worked: Duration,
    /// True if the request has waited for the end of a job, which is no sign of a slow server.
    has_waited_for_job: bool,
}

task_local! {
    static SPENT: Cell<Spent>;
}

/// Adds the time that work waited for a thread (`queued`) and ran on it (`worked`) to the times of
/// the request that the current async task serves.
pub(super) fn note(queued: Duration, worked: Duration) {
    // Without an observer no request is measured.
    let _unmeasured = SPENT.try_with(|spent| {
        let before = spent.get();
        spent.set(Spent {
            queued: before.queued + queued,
            worked: before.worked + worked,
            ..before
        });
    });
}

/// Notes that the request that the current async task serves waits for the end of a job. The
/// observer does not get this request.
pub(super) fn note_wait_for_job() {
    // Without an observer no request is measured.
    let _unmeasured = SPENT.try_with(|spent| {
        spent.set(Spent {
            has_waited_for_job: true,
            ..spent.get()
        });
    });
}

/// Returns the path of a request for a log: 1 KiB at most, and without the query.
pub(super) fn logged_path(uri: &Uri) -> String {
    let path = uri.path();
    path[..path.floor_char_boundary(PATH_BYTES_MAX)].to_owned()
}

/// Measures a request, and passes it to the observer if it was slow. Never passes a request that
/// has waited for the end of a job.
pub(super) async fn measure(
    State(slow): State<SlowRequests>,
    Extension(peer): Extension<Peer>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let begun = Instant::now();
    let answered = async {
        let response = next.run(request).await;
        (response, SPENT.with(Cell::get))
    };
    let (response, spent) = SPENT.scope(Cell::default(), answered).await;
    let total = begun.elapsed();
    if total >= slow.at_least && !spent.has_waited_for_job {
        (slow.observer)(&SlowRequest {
            address: peer.address,
            token: (!principal.id.is_empty()).then_some(principal.id),
            role: principal.role.map(|role| role.name),
            name: principal.name,
            method: method.to_string(),
            path: logged_path(&uri),
            status: response.status().as_u16(),
            total,
            queued: spent.queued,
            worked: spent.worked,
        });
    }
    response
}
