//! HTTP to a catalog and to its OAuth2 server.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use tokio::runtime::Runtime;

use super::error::CatalogError;

/// The time-out of a request. It leaves a catalog time to read and write the metadata of a large table.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The largest response body that the client accepts, in bytes; a larger one is an error. The metadata of a
/// table with ten thousand snapshots has about 10 MiB.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The longest part of a server's message that an error shows, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// The outcome of a request, as far as the client can tell.
pub(super) enum Answer {
    /// The request has taken effect. The field is the body of the response.
    Done(Vec<u8>),
    /// The server refused the request, or it could not be sent because the OAuth2 server refused a token. It
    /// has no effect.
    Refused { status: StatusCode, reason: String },
    /// The client got no response, or one after which the request may or may not have taken effect.
    Unknown { reason: String },
}

impl Answer {
    /// Returns the outcome of a request that the server answered with the failure `status`: `Unknown` if the
    /// same request may succeed later (see [`may_pass`]), and `Refused` otherwise.
    pub(super) fn of_failure(status: StatusCode, reason: String) -> Self {
        if may_pass(status) {
            Self::Unknown { reason }
        } else {
            Self::Refused { status, reason }
        }
    }
}

/// Returns whether the same request may succeed later, although the server answered it with the failure
/// `status`: after an error of the server (5xx), or after too many requests (429).
pub(super) fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Returns the part of a server's message that an error shows: the first [`MESSAGE_CHARS_MAX`] characters,
/// without control characters.
pub(super) fn for_people(text: &str) -> String {
    let is_text = |c: &char| !c.is_control();
    text.chars()
        .filter(is_text)
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

/// An HTTP client, and the runtime whose threads serve its connections.
pub(super) struct Transport {
    http: reqwest::Client,
    runtime: Arc<Runtime>,
}

impl Transport {
    pub(super) fn new(runtime: Arc<Runtime>) -> Result<Self, CatalogError> {
        // The provider of TLS, which the process may have already: then this changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // Another server must not get the token.
            .redirect(Policy::none())
            .user_agent(concat!("ebb/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                CatalogError::Setting(format!("the client of the catalog: {error}"))
            })?;
        Ok(Self { http, runtime })
    }

    /// Returns a request that [`answer`](Self::answer) sends.
    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http.request(method, url)
    }

    /// Sends a request, and returns the status and the body of the response.
    ///
    /// # Errors
    /// If no complete response arrives within [`TIMEOUT`], or if its body is larger than
    /// [`ANSWER_BYTES_MAX`]. The error is the reason, without the URL.
    pub(super) fn answer(&self, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
        self.runtime.block_on(async {
            let response = request.send().await.map_err(cause_of)?;
            let status = response.status();
            Ok((status, read(response).await?))
        })
    }

    /// Waits for the time `pause`.
    pub(super) fn pause(&self, pause: Duration) {
        // In the runtime: its clock is not known outside.
        self.runtime
            .block_on(async { tokio::time::sleep(pause).await });
    }
}

/// Reads the body of a response.
///
/// # Errors
/// If the body does not arrive as a whole, or if it is larger than [`ANSWER_BYTES_MAX`].
async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(cause_of)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the text of an error and of its causes, without the URL of the request.
fn cause_of(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
