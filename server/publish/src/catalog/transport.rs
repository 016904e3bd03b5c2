//! HTTP to a catalog and to its OAuth2 server.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use tokio::runtime::Runtime;

use super::error::CatalogError;

/// The time-out of a request. Within this time a catalog reads and writes the metadata of a table.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The largest answer that is read, in bytes. The metadata of a table with ten thousand snapshots
/// has 10 MiB.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The longest part of a server's message that an error shows, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// The answer to a request.
pub(super) enum Answer {
    /// The request has taken effect. This is the body of the response.
    Done(Vec<u8>),
    /// The request has no effect.
    Refused { status: StatusCode, reason: String },
    /// The request has no answer, or one that leaves open whether it took effect.
    Unknown { reason: String },
}

impl Answer {
    /// Returns the answer to a request that has failed with this status.
    pub(super) fn of_failure(status: StatusCode, reason: String) -> Self {
        if may_pass(status) {
            Self::Unknown { reason }
        } else {
            Self::Refused { status, reason }
        }
    }
}

/// Returns whether the same request may succeed later, after an answer with `status`.
pub(super) fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Returns at most [`MESSAGE_CHARS_MAX`] characters of a server's message, without control
/// characters.
pub(super) fn for_people(text: &str) -> String {
    let is_text = |c: &char| !c.is_control();
    text.chars()
        .filter(is_text)
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

/// An HTTP client, and the threads that serve its connections.
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

    /// Sends a request, and returns the status and the body of its answer.
    ///
    /// # Errors
    /// The reason for which there is no answer.
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

/// Reads the body of an answer.
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

/// Returns the reason why a request has no answer.
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
