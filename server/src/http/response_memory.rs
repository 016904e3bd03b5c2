//! The memory of long responses that wait for their clients.
//!
//! A client may read slowly, and a response stays in memory until it is sent. Three limits bound this memory,
//! however many clients read slowly:
//!
//! - A connection buffers at most about 128 KiB. So a response up to 64 KiB ([`LONG_BYTES`]) needs no further
//!   limit. A longer one is given to the connection in chunks.
//! - All long responses together have at most 128 MiB, and those of one token at most half of this. A request
//!   that only reads is refused with 503 if its response would exceed this. The response to a change is never
//!   refused, because the change is made. Instead, a token whose responses have all its memory cannot begin a
//!   change.
//! - The client has to read a long response at 16 KiB per second on average, after 30 seconds in which it may
//!   read nothing. Otherwise the connection ends, and the memory is free for other clients.
//!
//! Responses without a known length, which are the event streams, have no such limit: a stream ends when its
//! client is too many events behind. The files of the console do not count, because the program has them in
//! memory anyway.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use hyper::body::{Frame, SizeHint};

use super::access::{is_change, is_open};
use super::deadline::{ResponseDeadline, RunningDeadline};
use super::problem::Problem;
use crate::tokens::Principal;

/// The length from which a response is long, in bytes, and the length of the chunks of a long response.
const LONG_BYTES: usize = 64 << 10;
/// The most bytes of all long responses that wait for their clients.
const BYTES_MAX: usize = 128 << 20;
/// The least average rate at which a client reads a long response, in bytes per second.
const BYTES_PER_S_MIN: u64 = 16 << 10;
/// The time for a long response in addition to that of [`BYTES_PER_S_MIN`].
const GRACE: Duration = Duration::from_secs(30);
/// The `Retry-After` time, in seconds, in the response to a request that is refused because other long
/// responses have the memory.
const RETRY_AFTER_S: u64 = 5;

/// The bytes of the long responses that wait for their clients. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct ResponseMemory {
    /// The bytes by the id of the token. The clients of the socket have no token, and the empty id.
    taken: Arc<Mutex<HashMap<String, usize>>>,
    /// The most bytes of all tokens together. One token may have half of them.
    bytes_max: usize,
}

impl Default for ResponseMemory {
    fn default() -> Self {
        Self::of(BYTES_MAX)
    }
}

impl ResponseMemory {
    fn of(bytes_max: usize) -> Self {
        Self {
            taken: Arc::default(),
            bytes_max,
        }
    }

    /// Returns whether the responses of a token have less than the memory of the token.
    fn has_room(&self, token: &str) -> bool {
        let of_token = self.lock().get(token).copied();
        of_token.is_none_or(|taken| taken < self.bytes_max / 2)
    }

    /// Counts a response of a token. Returns `None` if there is no room for the response and it `is_refusable`.
    ///
    /// The only response of all tokens always has room, and so has the only one of a token among those of the
    /// token: otherwise a response above the limit could never be sent.
    fn take(&self, token: &str, bytes: usize, is_refusable: bool) -> Option<TakenBytes> {
        let mut taken = self.lock();
        let all: usize = taken.values().sum();
        let of_token = taken.get(token).copied().unwrap_or_default();
        let fits = |taken: usize, max: usize| taken == 0 || taken.saturating_add(bytes) <= max;
        let has_room = fits(all, self.bytes_max) && fits(of_token, self.bytes_max / 2);
        if is_refusable && !has_room {
            return None;
        }
        taken.insert(token.to_owned(), of_token + bytes);
        drop(taken);
        Some(TakenBytes {
            memory: self.clone(),
            token: token.to_owned(),
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that one response has taken. Dropping this frees them.
#[derive(Debug)]
struct TakenBytes {
    memory: ResponseMemory,
    token: String,
    bytes: usize,
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        let mut taken = self.memory.lock();
        match taken.get_mut(&self.token) {
            Some(of_token) if *of_token > self.bytes => *of_token -= self.bytes,
            _ => drop(taken.remove(&self.token)),
        }
    }
}

/// Passes on a request. If the response is long, counts its memory, sets the deadline of its connection, and
/// gives it to the connection in chunks. Refuses a request that only reads if there is no room for the response,
/// and a change if the responses of its token have all the memory of the token.
pub(super) async fn bound(
    State(memory): State<ResponseMemory>,
    Extension(principal): Extension<Principal>,
    Extension(deadline): Extension<ResponseDeadline>,
    request: Request,
    next: Next,
) -> Response {
    let (is_change, is_open) = (is_change(&request), is_open(request.uri().path()));
    if is_change && !memory.has_room(&principal.id) {
        return no_room().into_response();
    }
    let response = next.run(request).await;
    let Some(bytes) = long_bytes(response.body()) else {
        return response;
    };
    let mut taken = None;
    if !is_open {
        taken = memory.take(&principal.id, bytes, !is_change);
        if taken.is_none() {
            return no_room().into_response();
        }
    }
    let running = deadline.start(time_for(bytes));
    response.map(|body| {
        Body::new(LongBody {
            body,
            rest: Bytes::new(),
            _taken: taken,
            _deadline: running,
        })
    })
}

/// Returns the length of a long body; `None` for a shorter one, and for one of an unknown length.
fn long_bytes(body: &Body) -> Option<usize> {
    let bytes = usize::try_from(body.size_hint().exact()?).unwrap_or(usize::MAX);
    (bytes > LONG_BYTES).then_some(bytes)
}

/// Returns the time in which a client has to read a long response.
fn time_for(bytes: usize) -> Duration {
    GRACE + Duration::from_secs(bytes as u64 / BYTES_PER_S_MIN)
}

fn no_room() -> Problem {
    let text = "long responses wait for clients that read slowly, and have the memory for responses: retry \
                later, or request less at once, such as a shorter page";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, Failure::Other, text).retry_after(RETRY_AFTER_S)
}

/// A long body in chunks of [`LONG_BYTES`]. A connection takes one chunk after the other while its buffer has
/// room, so the body lives until nearly all of it is sent.
struct LongBody {
    body: Body,
    /// The bytes that came from `body`, and that the connection has not taken yet.
    rest: Bytes,
    _taken: Option<TakenBytes>,
    _deadline: RunningDeadline,
}

impl HttpBody for LongBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let bytes = self.rest.len().min(LONG_BYTES);
        let chunk = self.rest.split_to(bytes);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.size_hint();
        let bytes = body.exact().map(|bytes| bytes + self.rest.len() as u64);
        bytes.map_or(body, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::to_bytes;
    use axum::middleware::from_fn_with_state;
    use axum::routing::{get, post};
    use http_body_util::BodyExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    /// The length of the responses of the routes that [`routes`] returns.
    const BYTES: usize = 3 * LONG_BYTES + 7;

    async fn long() -> Vec<u8> {
        vec![7; BYTES]
    }

    async fn short() -> &'static str {
        "short"
    }

    /// Returns routes with long responses for the token `id`, below the limit `memory`.
    fn routes(
        memory: &ResponseMemory,
        deadline: &ResponseDeadline,
        id: &str,
    ) -> TowerToHyperService<Router> {
        let principal = Principal {
            id: id.to_owned(),
            ..Principal::anonymous()
        };
        let routes = Router::new()
            .route("/v1/load", get(long))
            .route("/v1/jobs", post(long))
            .route("/assets/console.js", get(long))
            .route("/short", get(short))
            .layer(from_fn_with_state(memory.clone(), bound))
            .layer(Extension(principal))
            .layer(Extension(deadline.clone()));
        TowerToHyperService::new(routes)
    }

    fn taken(memory: &ResponseMemory) -> usize {
        memory.lock().values().sum()
    }

    async fn ask(routes: &TowerToHyperService<Router>, method: &str, path: &str) -> Response {
        let request = axum::http::Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        routes.call(request).await.unwrap()
    }

    /// Regression: clients that read slowly kept any number of long responses in memory.
    #[tokio::test]
    async fn a_read_is_refused_while_unread_responses_have_the_memory() {
        let memory = ResponseMemory::of(5 * BYTES);
        let deadline = ResponseDeadline::default();
        let [one, other] = ["1", "2"].map(|id| routes(&memory, &deadline, id));
        let mut unread = Vec::new();
        for _ in 0..2 {
            let response = ask(&one, "GET", "/v1/load").await;
            assert_eq!(response.status(), StatusCode::OK);
            unread.push(response);
        }
        let refused = ask(&one, "GET", "/v1/load").await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "5");
        // The token of another client has room, and changes and short responses are not refused.
        unread.push(ask(&other, "GET", "/v1/load").await);
        unread.push(ask(&one, "POST", "/v1/jobs").await);
        for (method, path) in [("GET", "/short"), ("GET", "/assets/console.js")] {
            assert_eq!(ask(&one, method, path).await.status(), StatusCode::OK);
        }
        assert!(unread.iter().all(|response| response.status().is_success()));
        // The response to a change has its memory beyond the limit, and then no other change begins.
        assert!(!memory.has_room("1"));
        let refused = ask(&one, "POST", "/v1/jobs").await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(taken(&memory), 4 * BYTES);
        // A response that was sent or given up is out of memory.
        for response in unread.drain(..2) {
            let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(body.len(), BYTES);
        }
        assert!(ask(&one, "GET", "/v1/load").await.status().is_success());
        drop(unread);
        assert!(memory.lock().is_empty());
    }

    /// Regression: a client that read a byte in each half minute kept a response in memory for weeks.
    #[tokio::test]
    async fn a_long_response_has_a_deadline_until_its_last_chunk_is_taken() {
        let memory = ResponseMemory::of(BYTES);
        let deadline = ResponseDeadline::default();
        let routes = routes(&memory, &deadline, "1");
        let _short = ask(&routes, "GET", "/short").await;
        assert!(!deadline.is_running());
        let response = ask(&routes, "GET", "/v1/load").await;
        let mut body = response.into_body();
        assert_eq!(body.size_hint().exact(), Some(BYTES as u64));
        let mut chunks = Vec::new();
        while !body.is_end_stream() {
            assert!(deadline.is_running());
            let frame = body.frame().await.unwrap().unwrap();
            chunks.push(frame.into_data().unwrap().len());
        }
        assert_eq!(chunks, [LONG_BYTES, LONG_BYTES, LONG_BYTES, 7]);
        drop(body);
        assert!(!deadline.is_running());
    }

    #[test]
    fn the_time_for_a_response_grows_with_its_length() {
        for (bytes, time_s) in [(LONG_BYTES, 34), (1 << 20, 94), (64 << 20, 4126)] {
            assert_eq!(time_for(bytes), Duration::from_secs(time_s));
        }
    }

    #[test]
    fn the_only_response_of_a_token_has_room_whatever_its_length_is() {
        let memory = ResponseMemory::of(100);
        let fits = |token, bytes| memory.take(token, bytes, true).is_some();
        assert!(fits("1", 1000));
        let _taken = memory.take("1", 30, true).unwrap();
        assert!(fits("1", 20) && !fits("1", 21));
        assert!(fits("2", 70) && !fits("2", 71));
    }
}
