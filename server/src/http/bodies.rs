//! The greatest length of a request's body, and bodies that are refused by the headers, before they are sent.

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use hyper::body::Body;

use super::problem::Problem;
use super::session::SESSION;

/// The greatest length of a request's body, in bytes. A long one names many files.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The greatest length of the body of a login, in bytes. Such a body has a token of some 80 bytes. Clients
/// without a token may send logins over all connections at once, so that a higher limit would let them fill
/// the memory.
const LOGIN_BYTES_MAX: usize = 4 << 10;
/// The only `Content-Encoding` of a request body that is accepted. It means that the body is not encoded.
const PLAIN: &str = "identity";

/// Refuses a request whose body is compressed (415), or whose `Content-Length` is above the limit for its path
/// (413). Passes on all others. The limit also applies to the bytes that are read, because a request may have no
/// `Content-Length`.
pub(super) async fn check_body(mut request: Request, next: Next) -> Response {
    let codings = request.headers().get_all(CONTENT_ENCODING);
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(PLAIN.as_bytes());
    if !codings.iter().all(is_plain) {
        let text = "the body has a Content-Encoding: send it without";
        let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Failure::Invalid, text);
        // The header shows clients that the coding is refused, and not the media type.
        let accepted = [(ACCEPT_ENCODING, HeaderValue::from_static(PLAIN))];
        return (accepted, problem).into_response();
    }
    let path = request.uri().path();
    let bytes_max = bytes_max(path);
    if request.body().size_hint().lower() > bytes_max as u64 {
        let text = format!(
            "the body is longer than {bytes_max} bytes, the limit of {path}: send a shorter one"
        );
        let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Failure::Invalid, text);
        return problem.into_response();
    }
    DefaultBodyLimit::max(bytes_max).apply(&mut request);
    next.run(request).await
}

/// Returns the greatest length of the body of a request to this path, in bytes.
fn bytes_max(path: &str) -> usize {
    if path == SESSION {
        LOGIN_BYTES_MAX
    } else {
        REQUEST_BYTES_MAX
    }
}
