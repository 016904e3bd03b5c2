//! Bodies of requests that are refused by the headers, before they are sent.

use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ebb_jobs::Failure;
use hyper::body::Body;

use super::problem::Problem;
use super::routes::REQUEST_BYTES_MAX;

/// The only `Content-Encoding` of a request body that is accepted. It means that the body is not encoded.
const PLAIN: &str = "identity";

/// Refuses a request whose body is compressed (415), or whose `Content-Length` is above
/// [`REQUEST_BYTES_MAX`] (413). Passes on all others.
pub(super) async fn check_body(request: Request, next: Next) -> Response {
    let codings = request.headers().get_all(CONTENT_ENCODING);
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(PLAIN.as_bytes());
    if !codings.iter().all(is_plain) {
        let text = "the body has a Content-Encoding: send it without";
        let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Failure::Invalid, text);
        // The header shows clients that the coding is refused, and not the media type.
        let accepted = [(ACCEPT_ENCODING, HeaderValue::from_static(PLAIN))];
        return (accepted, problem).into_response();
    }
    if request.body().size_hint().lower() > REQUEST_BYTES_MAX as u64 {
        let text = "the body is longer than 1 MiB";
        let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Failure::Invalid, text);
        return problem.into_response();
    }
    next.run(request).await
}
