//! Requests to a catalog. Those whose answer is not final are repeated, or their effect is looked at first.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::error::CatalogError;

/// The time-out of a request. A catalog reads and writes the metadata of a table in it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The attempts of a request without a final answer.
pub(super) const ATTEMPTS: u32 = 5;

/// The pause before the second attempt. Each later pause is twice as long.
const PAUSE: Duration = if cfg!(test) {
    Duration::ZERO
} else {
    Duration::from_millis(200)
};

/// The largest answer that is read. The metadata of a table with ten thousand snapshots has 10 MiB.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The longest part of a catalog's message that an error has, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// A client of one catalog. There is no debug output, because of the token.
pub(super) struct Client {
    http: reqwest::Client,
    runtime: Arc<Runtime>,
    token: Option<String>,
}

/// A request, as it is repeated.
pub(super) struct Request {
    /// The call, as errors name it.
    pub(super) call: &'static str,
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
}

/// The answer to a request.
pub(super) enum Answer {
    /// The request has taken effect.
    Done(Vec<u8>),
    /// The request has no effect.
    Refused { status: StatusCode, reason: String },
    /// There is no response, or one from which it is not clear whether the request took effect.
    Unknown { reason: String },
}

/// The body of an answer that is an error.
#[derive(Default, Deserialize)]
struct ErrorBody {
    error: ErrorModel,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorModel {
    message: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Client {
    pub(super) fn new(token: Option<String>, runtime: Arc<Runtime>) -> Result<Self, CatalogError> {
        // The provider of TLS, which the process may have already: then this changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // Another place must not get the token.
            .redirect(Policy::none())
            .user_agent(concat!("ebb/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                CatalogError::Setting(format!("the client of the catalog: {error}"))
            })?;
        Ok(Self {
            http,
            runtime,
            token,
        })
    }

    /// Sends a request until its answer is final, a limited number of times. The request must have the same
    /// effect however often it is sent.
    pub(super) fn send(&self, request: &Request) -> Answer {
        let mut attempt = 1;
        loop {
            match self.send_once(request) {
                Answer::Unknown { .. } if attempt < ATTEMPTS => self.pause(attempt),
                answer => return answer,
            }
            attempt += 1;
        }
    }

    /// Sends a request.
    pub(super) fn send_once(&self, request: &Request) -> Answer {
        let mut sent = self
            .http
            .request(request.method.clone(), request.url.clone());
        if let Some(token) = &self.token {
            sent = sent.bearer_auth(token);
        }
        if let Some(body) = &request.body {
            sent = sent
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let answered = self.runtime.block_on(async {
            let response = sent.send().await.map_err(cause_of)?;
            let status = response.status();
            Ok::<_, String>((status, read(response).await?))
        });
        match answered {
            Err(reason) => Answer::Unknown { reason },
            Ok((status, body)) if status.is_success() => Answer::Done(body),
            Ok((status, body)) => {
                let reason = self.refusal(status, &body);
                let may_pass = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                if may_pass {
                    Answer::Unknown { reason }
                } else {
                    Answer::Refused { status, reason }
                }
            }
        }
    }

    /// Waits before the attempt after `attempt`.
    pub(super) fn pause(&self, attempt: u32) {
        let pause = PAUSE.saturating_mul(1 << attempt.min(10).saturating_sub(1));
        // In the runtime: its clock is not known outside.
        self.runtime
            .block_on(async { tokio::time::sleep(pause).await });
    }

    /// Returns a text from an answer for people: a limited part of it, without the token.
    pub(super) fn without_token(&self, text: &str) -> String {
        let text = match &self.token {
            None => text.to_owned(),
            Some(token) => text.replace(&token[..], "..."),
        };
        let is_text = |c: &char| !c.is_control();
        text.chars()
            .filter(is_text)
            .take(MESSAGE_CHARS_MAX)
            .collect()
    }

    /// Returns the reason of an answer that is an error: its status, and the message that the protocol has for
    /// people, without the token.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> String {
        let body: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
        let ErrorModel { message, kind } = body.error;
        let mut text = format!("the catalog answers {status}");
        for part in [kind, message].into_iter().flatten() {
            text.push_str(": ");
            text.push_str(&self.without_token(&part));
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            text.push_str(
                "; EBB_CATALOG_TOKEN must hold a token that may create and change the table",
            );
        }
        text
    }
}

impl Request {
    /// Returns the error of this request.
    pub(super) fn failed(&self, reason: String) -> CatalogError {
        let mut url = self.url.clone();
        url.set_query(None);
        CatalogError::Request {
            call: self.call,
            url: url.into(),
            reason,
        }
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

/// Returns why a request has no answer.
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
