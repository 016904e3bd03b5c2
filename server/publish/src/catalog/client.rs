//! Requests to a catalog. A request whose answer is not final is repeated, in some cases only after a look at
//! its effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::error::CatalogError;
use super::tokens::{Access, Clock, Tokens};
use super::transport::{Answer, Transport, for_people};

/// The greatest number of attempts at a request. A request is sent again if it is not known whether
/// it has taken effect: [`Answer::Unknown`].
pub(super) const ATTEMPTS: u32 = 5;

/// The pause before the second attempt. Each later pause is twice as long.
const PAUSE: Duration = if cfg!(test) {
    Duration::ZERO
} else {
    Duration::from_millis(200)
};

/// A client of one catalog. It does not implement `Debug`, because it contains tokens.
pub(super) struct Client {
    transport: Transport,
    tokens: Tokens,
}

/// A request, kept so that it can be sent again.
pub(super) struct Request {
    /// The name of the call in errors, such as `reading the table`.
    pub(super) call: &'static str,
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
}

/// The body of an error response.
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
    /// Returns a client whose tokens come from `access`.
    pub(super) fn new(access: Access, runtime: Arc<Runtime>) -> Result<Self, CatalogError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the door to the clock, by which tokens are renewed"
        )]
        let clock: Clock = Box::new(Instant::now);
        Ok(Self {
            transport: Transport::new(runtime)?,
            tokens: Tokens::new(access, clock),
        })
    }

    /// Sends a request up to [`ATTEMPTS`] times, until the catalog answers whether it has taken
    /// effect. The request must have the same effect however often it is sent.
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

    /// Sends a request. If the catalog refuses the token, and a server issues other tokens, sends the request
    /// once more with another one: a refused request has had no effect.
    pub(super) fn send_once(&self, request: &Request) -> Answer {
        let mut may_renew = true;
        loop {
            let token = match self.tokens.current(&self.transport) {
                Ok(token) => token,
                Err(answer) => return answer,
            };
            let (status, body) = match self.transport.answer(self.built(request, token.as_deref()))
            {
                Ok((status, body)) if status.is_success() => return Answer::Done(body),
                Ok(answered) => answered,
                Err(reason) => return Answer::Unknown { reason },
            };
            let reason = self.refusal(status, &body, token.as_deref());
            if !(self.tokens.give_up(token.as_deref(), status) && may_renew) {
                return Answer::of_failure(status, reason);
            }
            may_renew = false;
        }
    }

    fn built(&self, request: &Request, token: Option<&str>) -> reqwest::RequestBuilder {
        let (method, url) = (request.method.clone(), request.url.clone());
        let mut built = self.transport.request(method, url);
        if let Some(token) = token {
            built = built.bearer_auth(token);
        }
        match &request.body {
            Some(body) => built
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string()),
            None => built,
        }
    }

    /// Waits before the next attempt. `attempt` is the number of the last attempt, from 1. Each wait is twice
    /// as long as the one before.
    pub(super) fn pause(&self, attempt: u32) {
        let pause = PAUSE.saturating_mul(1 << attempt.min(10).saturating_sub(1));
        self.transport.pause(pause);
    }

    /// Returns a text of a server as an error may show it: without secrets, and cut if it is long.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        for_people(&self.tokens.hide(text))
    }

    /// Returns the text of an error response, without secrets: its status, and the message for people in its
    /// body. `token` is the token that was sent with the request. The client may have a newer one by now.
    fn refusal(&self, status: StatusCode, body: &[u8], token: Option<&str>) -> String {
        let body: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
        let ErrorModel { message, kind } = body.error;
        let mut text = format!("the catalog answers {status}");
        for part in [kind, message].into_iter().flatten() {
            let part = token.map_or_else(|| part.clone(), |token| part.replace(token, "..."));
            text.push_str(": ");
            text.push_str(&self.without_secrets(&part));
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            text.push_str("; ");
            text.push_str(self.tokens.remedy());
        }
        text
    }
}

impl Request {
    /// Returns the error that this request failed for the reason `reason`.
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
