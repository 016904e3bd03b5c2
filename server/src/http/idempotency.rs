//! Retries of requests of which the client does not know whether they were executed: the header
//! `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
//!
//! For a day, a change that was made for a token and a key is not made again: the same request gets the
//! same response. A key applies to one method and path: the same key elsewhere is another one. Responses
//! are kept in memory and in a table, so also a restarted server has them. The key of a submitted job is
//! in the history instead, in the same record as the job: a server that is killed between the two has
//! neither or both.
//!
//! A request that was refused or failed keeps no key, and its retry is executed. So it costs no row and
//! displaces no response. If the server kept the refusal of another request with the key of a job, a retry
//! of the job's own request would be refused, too.
//!
//! | file | |
//! | --- | --- |
//! | `remembered` | which responses a request gets, and which are dropped |
//! | `rows` | the table |
//! | `answers` | both |

mod answers;
mod remembered;
mod rows;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use ebb_jobs::history::{Submission, now_unix_ms};
use sha2::{Digest, Sha256};

pub(super) use self::answers::Answers;
use self::answers::Execution;
use self::remembered::{Step, StoredResponse};
use super::access::{is_change, takes_key};
use super::bodies::REQUEST_BYTES_MAX;
use super::problem::{Problem, broken};
use crate::tokens::Principal;

/// The request header with the idempotency key, which a client sends again with a retry.
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks a response as a repetition of an earlier one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest `Idempotency-Key`, in bytes.
pub const KEY_BYTES_MAX: usize = 128;
/// The `detail` of the error for a request whose `Idempotency-Key` an earlier, different request had.
pub(super) const OTHER_REQUEST: &str =
    "this Idempotency-Key came with another request: take a new one";

/// A mark on the response to a request that started a job. The record of the job in the history has the
/// `Idempotency-Key`, so [`once`] stores no row for the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyInHistory;

/// Executes a request. If an earlier request with its idempotency key succeeded, returns the stored response
/// of that request instead. Refuses the request if the earlier one is not done, or was different.
pub(super) async fn once(
    State(answers): State<Arc<Answers>>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Response {
    let takes_key = is_change(&request) && takes_key(request.uri().path());
    if !takes_key || !request.headers().contains_key(KEY) {
        return next.run(request).await;
    }
    match with_key(answers, &principal, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn with_key(
    answers: Arc<Answers>,
    principal: &Principal,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let named = key_of(request.headers())?;
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, REQUEST_BYTES_MAX).await;
    let body = body.map_err(|_| {
        let text = "the body did not come, or is longer than 1 MiB";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Failure::Invalid, text)
    })?;
    let place = parts
        .uri
        .path_and_query()
        .map_or("", |place| place.as_str());
    let (method, path) = (
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
    );
    let hash = sha256(&[method, place.as_bytes(), &body]);
    let key = sha256(&[principal.id.as_bytes(), method, path, named.as_bytes()]);
    let by = Submission::new(&key, &hash);
    match answers.begin(&by) {
        Step::Execute => {}
        Step::Replay(response) => return Ok(response.replay()),
        Step::Conflict => return Err(Problem::senseless(OTHER_REQUEST)),
        Step::Busy => {
            let text = "the first request with this Idempotency-Key is not done, or its response is being \
                        stored or deleted: retry later";
            return Err(Problem::new(StatusCode::CONFLICT, Failure::Other, text));
        }
    }
    let execution = answers.execution(by.clone());
    parts.extensions.insert(by);
    let request = Request::from_parts(parts, Body::from(body));
    // In a task of its own: it runs to its end although the client disconnects, and a retry gets
    // its response.
    let work = tokio::spawn(execute(execution, request, next));
    work.await.map_err(broken)?
}

/// Executes a request. If it succeeds, stores its response before the client gets it.
async fn execute(execution: Execution, request: Request, next: Next) -> Result<Response, Problem> {
    let (parts, body) = next.run(request).await.into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(broken)?;
    if parts.status.is_success() {
        let response = StoredResponse {
            at_unix_ms: now_unix_ms(),
            status: parts.status,
            content_type: parts.headers.get(CONTENT_TYPE).cloned(),
            location: parts.headers.get(LOCATION).cloned(),
            body: body.clone(),
        };
        let is_in_history = parts.extensions.get::<KeyInHistory>().is_some();
        execution.end(response, is_in_history).await?;
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

impl StoredResponse {
    fn replay(self) -> Response {
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.remove(CONTENT_TYPE);
        for (name, value) in [(CONTENT_TYPE, self.content_type), (LOCATION, self.location)] {
            headers.extend(value.map(|value| (name, value)));
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// Returns whether a text may be an `Idempotency-Key`: 1 to [`KEY_BYTES_MAX`] visible ASCII characters.
#[must_use]
pub fn is_idempotency_key(text: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the idempotency key in the headers of a request.
///
/// # Errors
/// When there is no such header, there are several, or the key is not valid.
fn key_of(headers: &HeaderMap) -> Result<String, Problem> {
    let mut keys = headers.get_all(KEY).iter();
    let (key, more) = (keys.next(), keys.next());
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    let is_key = is_idempotency_key(key) && more.is_none();
    is_key.then(|| key.to_string()).ok_or_else(|| {
        Problem::invalid(format!(
            "Idempotency-Key: expected one header, of 1 to {KEY_BYTES_MAX} visible ASCII characters"
        ))
    })
}

/// Hashes the parts, each of them after its length. Without the lengths, the two parts `ab` and `c`
/// would have the same hash as `a` and `bc`.
fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_short_visible_key_is_one() {
        let of = |keys: &[&'static str]| {
            let keys = keys.iter().map(|key| (KEY, HeaderValue::from_static(key)));
            key_of(&keys.collect())
        };
        assert_eq!(
            of(&["8e03978e-40d5-43dd-bc93-6894a57f9324"]).unwrap().len(),
            36
        );
        let long: &'static str = String::leak("k".repeat(KEY_BYTES_MAX + 1));
        for keys in [&[""][..], &["a b"], &[long]] {
            assert!(of(keys).is_err(), "{keys:?}");
        }
        let mut two = HeaderMap::new();
        two.insert(KEY, HeaderValue::from_static("a"));
        two.append(KEY, HeaderValue::from_static("b"));
        assert!(key_of(&two).is_err());
    }
}
