//! Retries of requests of which the client does not know whether they were executed: the header
//! `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
//!
//! For a day, the same request of the same token with the same key gets the same response. A key
//! applies to one method and path: the same key elsewhere is another one. Responses are kept in
//! memory. The key of a submitted job is also in the history, so a restarted server finds the job.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use ebb_jobs::history::Submission;
use sha2::{Digest, Sha256};

use super::access::{is_change, takes_key};
use super::problem::{Problem, broken};
use super::routes::REQUEST_BYTES_MAX;
use crate::tokens::Principal;

/// The header that has the key of a request.
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks a response as a repetition of an earlier one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest `Idempotency-Key`, in bytes.
pub const KEY_BYTES_MAX: usize = 128;
/// The detail of the problem for a key that came with another request.
pub(super) const OTHER_REQUEST: &str =
    "this Idempotency-Key came with another request: take a new one";
/// How long a response is kept.
pub(super) const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// Responses that are kept. Beyond that, the oldest are dropped.
const ANSWERS_MAX: usize = 10_000;
/// Bytes of the bodies of all responses that are kept. Beyond that, the oldest are dropped.
const ANSWERS_BYTES_MAX: usize = 32 << 20;

/// The responses by key.
#[derive(Debug, Default)]
pub(super) struct Answers {
    state: Mutex<Remembered>,
}

type Key = [u8; 32];

#[derive(Debug, Default)]
struct Remembered {
    of: HashMap<Key, Answer>,
    /// The keys of complete responses, the oldest first.
    complete: VecDeque<Key>,
    bytes: usize,
}

#[derive(Debug)]
struct Answer {
    /// The hash of the request.
    fingerprint: Key,
    /// The response; `None` while the request is executed.
    response: Option<StoredResponse>,
}

#[derive(Debug, Clone)]
struct StoredResponse {
    at: Instant,
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

/// The next step for a request with a key.
#[derive(Debug)]
enum Step {
    Execute,
    Replay(StoredResponse),
    /// Refuse it: the key came with another request.
    Conflict,
    /// Refuse it: the first request is being executed.
    Busy,
}

impl Answers {
    fn begin(&self, key: Key, fingerprint: Key, now: Instant) -> Step {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget(now);
        match state.of.get(&key) {
            Some(answer) if answer.fingerprint != fingerprint => Step::Conflict,
            Some(Answer { response: None, .. }) => Step::Busy,
            Some(Answer {
                response: Some(response),
                ..
            }) => Step::Replay(response.clone()),
            None => {
                let answer = Answer {
                    fingerprint,
                    response: None,
                };
                state.of.insert(key, answer);
                Step::Execute
            }
        }
    }

    /// Stores the response to a key. `None` forgets the key, so that a retry is executed.
    fn end(&self, key: Key, response: Option<StoredResponse>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(response) = response else {
            state.of.remove(&key);
            return;
        };
        state.bytes += response.body.len();
        state.complete.push_back(key);
        let now = response.at;
        if let Some(answer) = state.of.get_mut(&key) {
            answer.response = Some(response);
        }
        state.forget(now);
    }
}

impl Remembered {
    /// Drops responses that are too old, and the oldest of too many.
    fn forget(&mut self, now: Instant) {
        while let Some(&key) = self.complete.front() {
            let response = self.of.get(&key);
            let response = response.and_then(|answer| answer.response.as_ref());
            let is_old = |response: &StoredResponse| {
                now.saturating_duration_since(response.at) >= REMEMBERED
            };
            let is_full = self.complete.len() > ANSWERS_MAX || self.bytes > ANSWERS_BYTES_MAX;
            if !is_full && !response.is_none_or(is_old) {
                return;
            }
            self.bytes -= response.map_or(0, |response| response.body.len());
            self.of.remove(&key);
            self.complete.pop_front();
        }
    }
}

/// Executes a request with a key once, however often it comes.
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
    let fingerprint = sha256(&[method, place.as_bytes(), &body]);
    let key = sha256(&[principal.id.as_bytes(), method, path, named.as_bytes()]);
    match answers.begin(key, fingerprint, Instant::now()) {
        Step::Execute => {}
        Step::Replay(response) => return Ok(response.replay()),
        Step::Conflict => return Err(Problem::senseless(OTHER_REQUEST)),
        Step::Busy => {
            let text = "the first request with this Idempotency-Key is at work: ask again later";
            return Err(Problem::new(StatusCode::CONFLICT, Failure::Other, text));
        }
    }
    parts.extensions.insert(Submission::new(&key, &fingerprint));
    let request = Request::from_parts(parts, Body::from(body));
    // In a task of its own: it runs to its end although the client disconnects, and a retry gets
    // its response.
    let work = tokio::spawn(async move {
        let mut ending = Ending {
            answers,
            key,
            response: None,
        };
        let (parts, body) = next.run(request).await.into_parts();
        let body = to_bytes(body, usize::MAX).await.map_err(broken)?;
        let is_final = !parts.status.is_server_error();
        if is_final && parts.status != StatusCode::TOO_MANY_REQUESTS {
            let kept = [CONTENT_TYPE, LOCATION].into_iter();
            let kept = kept.filter_map(|name| {
                let value = parts.headers.get(&name)?.clone();
                Some((name, value))
            });
            ending.response = Some(StoredResponse {
                at: Instant::now(),
                status: parts.status,
                headers: kept.collect(),
                body: body.clone(),
            });
        }
        drop(ending);
        Ok::<_, Problem>(Response::from_parts(parts, Body::from(body)))
    });
    work.await.map_err(broken)?
}

/// Ends the execution of a request with a key when it is dropped, also if the handler panicked.
struct Ending {
    answers: Arc<Answers>,
    key: Key,
    response: Option<StoredResponse>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.answers.end(self.key, self.response.take());
    }
}

impl StoredResponse {
    fn replay(self) -> Response {
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.remove(CONTENT_TYPE);
        headers.extend(self.headers);
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// The key that a request names.
fn key_of(headers: &HeaderMap) -> Result<String, Problem> {
    let mut keys = headers.get_all(KEY).iter();
    let (key, more) = (keys.next(), keys.next());
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    let is_key = (1..=KEY_BYTES_MAX).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_graphic())
        && more.is_none();
    is_key.then(|| key.to_string()).ok_or_else(|| {
        Problem::invalid(format!(
            "Idempotency-Key: one, of 1 to {KEY_BYTES_MAX} visible ASCII characters"
        ))
    })
}

/// Hashes the parts, each with its length, so that the bounds between them count.
fn sha256(parts: &[&[u8]]) -> Key {
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

    fn response(at: Instant, bytes: usize) -> Option<StoredResponse> {
        Some(StoredResponse {
            at,
            status: StatusCode::CREATED,
            headers: Vec::new(),
            body: vec![b'x'; bytes].into(),
        })
    }

    fn key(number: usize) -> Key {
        sha256(&[&number.to_le_bytes()])
    }

    #[test]
    fn a_request_is_executed_once_in_a_day() {
        let answers = Answers::default();
        let start = Instant::now(); // clock: the base of a manual clock
        let begin = |fingerprint, at| answers.begin(key(1), key(fingerprint), at);
        assert!(matches!(begin(7, start), Step::Execute));
        assert!(matches!(begin(7, start), Step::Busy));
        assert!(matches!(begin(8, start), Step::Conflict));
        answers.end(key(1), response(start, 3));
        assert!(matches!(begin(7, start), Step::Replay(response) if response.body == "xxx"));
        assert!(matches!(begin(8, start), Step::Conflict));
        assert!(
            matches!(begin(8, start + REMEMBERED), Step::Execute),
            "it is forgotten"
        );
        answers.end(key(1), None);
        assert!(
            matches!(begin(9, start + REMEMBERED), Step::Execute),
            "nothing came of it"
        );
    }

    #[test]
    fn of_too_many_answers_the_oldest_are_forgotten() {
        let answers = Answers::default();
        let now = Instant::now(); // clock: the base of a manual clock
        let answer = |number, bytes| {
            assert!(matches!(
                answers.begin(key(number), key(0), now),
                Step::Execute
            ));
            answers.end(key(number), response(now, bytes));
        };
        for number in 0..ANSWERS_MAX + 2 {
            answer(number, 1);
        }
        let is_known = |number| {
            let state = answers.state.lock().unwrap();
            state.of.contains_key(&key(number))
        };
        assert_eq!((is_known(1), is_known(2)), (false, true));
        answer(ANSWERS_MAX + 2, ANSWERS_BYTES_MAX);
        assert!(!is_known(ANSWERS_MAX + 1), "there is no room for others");
        assert!(is_known(ANSWERS_MAX + 2));
        assert_eq!(answers.state.lock().unwrap().bytes, ANSWERS_BYTES_MAX);
    }

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
