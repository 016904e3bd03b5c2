//! The event stream (server-sent events). OpenAPI cannot describe the events in such a stream; the
//! book does.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{At, Served};
use crate::http::access::{Access, Credential};
use crate::http::problem::Problem;
use crate::live::Subscription;

/// The time without an event after which a comment is sent. It lets either side notice that the
/// other has gone.
const PING_EVERY: Duration = Duration::from_secs(15);
/// The bytes of a comment of server-sent events, which clients ignore.
const PING: &[u8] = b": ping\n\n";
/// The interval at which the credential of a stream is checked again.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// The `Retry-After` time, in seconds, in the response to a request that is refused because all
/// streams are in use. It is longer than for other work, because streams stay open for long.
const RETRY_AFTER_S: u64 = 10;

/// Permits for event streams, which stay open for long. The port and the socket have permits of their own.
/// There are half as many permits as connections, so that streams leave the other half to requests.
#[derive(Debug, Clone)]
pub(in crate::http) struct StreamPermits(Arc<Semaphore>);

impl StreamPermits {
    /// Creates the permits of a listener with at most this number of connections.
    pub(in crate::http) fn of(connections_max: u32) -> Self {
        Self(Arc::new(Semaphore::new(
            (connections_max / 2).max(1) as usize
        )))
    }
}

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Streams events
///
/// The stream has a sample of the load each second, another one of each ten seconds, and events for changes of
/// jobs, of snapshots, and of the decision of the guard, which limits jobs to keep the latency objective. It ends
/// when the server stops, when the credential is no longer valid, or when the client reads too slowly.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "watch_events", tag = "live",
    params(("Last-Event-ID" = Option<String>, Header,
        description = "The id of the last event that was received: later events are sent first")),
    responses((status = 200, description = "Server-sent events", body = String,
        content_type = "text/event-stream")),
)]
async fn events(
    State(Served { live, .. }): At,
    access: Option<Extension<Arc<Access>>>,
    credential: Option<Extension<Credential>>,
    Extension(StreamPermits(permits)): Extension<StreamPermits>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let last = headers.get("last-event-id").filter(|id| !id.is_empty());
    // An id that no event of ebb has is like one of an earlier server: its client missed events.
    let last = last.map(|id| id.to_str().ok().and_then(|id| id.parse().ok()).unwrap_or(0));
    let Ok(permit) = permits.try_acquire_owned() else {
        let text = "all event streams of the server are in use: retry later";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(Problem::new(status, Failure::Other, text).retry_after(RETRY_AFTER_S));
    };
    let credential = access.zip(credential);
    let stream = Stream {
        subscription: live.subscribe(last),
        _permit: permit,
        credential: credential.map(|(access, credential)| (access.0, credential.0)),
        checked: Instant::now(),
    };
    let stream = unfold(stream, |mut stream| async {
        let sent = stream.next().await?;
        Some((Ok::<_, Infallible>(sent), stream))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    let response: Response = (headers, Body::from_stream(stream)).into_response();
    Ok(response)
}

/// The stream of events to a client.
struct Stream {
    subscription: Subscription,
    _permit: OwnedSemaphorePermit,
    /// The credential of the request, with the [`Access`] that checks it; `None` for a client of
    /// the server's Unix socket, which sends no credential.
    credential: Option<(Arc<Access>, Credential)>,
    checked: Instant,
}

impl Stream {
    /// Returns the next bytes to send; `None` at the end of the subscription, or when the credential is no
    /// longer valid.
    async fn next(&mut self) -> Option<Bytes> {
        let next = timeout(PING_EVERY, self.subscription.next()).await;
        if let Some((access, credential)) = &self.credential
            && self.checked.elapsed() >= CHECK_EVERY
        {
            if !access.is_valid(credential).await {
                return None;
            }
            self.checked = Instant::now();
        }
        next.unwrap_or(Some(Bytes::from_static(PING)))
    }
}
