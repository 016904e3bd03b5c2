//! The bearer tokens with which requests to a catalog are sent: the one of the environment, or those that an
//! OAuth2 server issues for the credentials of a client (RFC 6749, 4.4).
//!
//! A token is issued before the first request, and another one when its time is nearly over or when the catalog
//! refuses it. Each is requested with the credentials, as PyIceberg does. Iceberg's Java client exchanges the
//! old token instead, which not all servers allow.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;

use super::transport::{Answer, Transport, for_people, may_pass};

/// The longest time before the end of a token's lifetime at which the next token is requested: longer than a
/// request takes. For a token with a short lifetime, a fifth of the lifetime is used instead.
const EARLY_MAX: Duration = Duration::from_secs(90);

/// The source of bearer tokens.
pub(super) enum Access {
    /// No token: the catalog requires none.
    Open,
    /// A token, which is not renewed.
    Token(String),
    /// Credentials. A server issues tokens to a client that sends them.
    Credentials(Credentials),
}

/// The credentials of an OAuth2 client.
pub(super) struct Credentials {
    pub(super) client_id: Option<String>,
    pub(super) secret: String,
    /// The URL at which the server issues tokens.
    pub(super) server: Url,
    pub(super) scope: String,
}

/// A function that returns the time, so that tests can have clocks of their own.
pub(super) type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// The tokens of one catalog. They do not implement `Debug`, because they are secrets.
pub(super) struct Tokens {
    access: Access,
    clock: Clock,
    /// The token that was issued last, until it is discarded.
    issued: Mutex<Option<Issued>>,
}

struct Issued {
    token: String,
    /// The time from which another token is requested; `None` if the server names no lifetime in seconds.
    renewed_from: Option<Instant>,
}

/// The answer of a server that issues a token.
#[derive(Deserialize)]
struct IssuedBody {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    /// The lifetime in seconds, which some servers send as a text.
    #[serde(default)]
    expires_in: Option<Value>,
}

/// The answer of a server that refuses a token.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RefusedBody {
    error: Option<String>,
    error_description: Option<String>,
}

impl Tokens {
    pub(super) fn new(access: Access, clock: Clock) -> Self {
        Self {
            access,
            clock,
            issued: Mutex::default(),
        }
    }

    /// Returns the token for a request; `None` if the catalog requires none. Requests a new token if there is
    /// none yet, or if the current one is about to expire.
    ///
    /// # Errors
    /// If the server issues no token. The error is an answer that the caller returns for its own request,
    /// which it cannot send.
    pub(super) fn current(&self, transport: &Transport) -> Result<Option<String>, Answer> {
        let credentials = match &self.access {
            Access::Open => return Ok(None),
            Access::Token(token) => return Ok(Some(token.clone())),
            Access::Credentials(credentials) => credentials,
        };
        // Under the lock: requests that begin at once share a token.
        let mut issued = self.issued();
        let now = (self.clock)();
        let is_of_use = |issued: &&Issued| issued.renewed_from.is_none_or(|from| now < from);
        if let Some(issued) = issued.as_ref().filter(is_of_use) {
            return Ok(Some(issued.token.clone()));
        }
        *issued = None;
        let new = credentials.request(transport, now)?;
        Ok(Some(issued.insert(new).token.clone()))
    }

    /// Discards `token` if `status` shows that the catalog refuses it, and if the server issues other tokens.
    /// Returns whether both are true. The caller may then send its request once more.
    pub(super) fn give_up(&self, token: Option<&str>, status: StatusCode) -> bool {
        let is_refusal = status == StatusCode::UNAUTHORIZED || status == token_expired();
        if !is_refusal || !matches!(self.access, Access::Credentials(_)) {
            return false;
        }
        let mut issued = self.issued();
        // Another request may have got a new one meanwhile.
        if issued.as_ref().map(|issued| &issued.token[..]) == token {
            *issued = None;
        }
        true
    }

    /// Returns a text without the secrets of this catalog.
    pub(super) fn hide(&self, text: &str) -> String {
        let hidden = match &self.access {
            Access::Open => text.to_owned(),
            Access::Token(token) => text.replace(&token[..], "..."),
            Access::Credentials(credentials) => credentials.hide(text),
        };
        match &*self.issued() {
            Some(issued) => hidden.replace(&issued.token[..], "..."),
            None => hidden,
        }
    }

    /// Returns advice for the user if the catalog refuses a request.
    pub(super) fn remedy(&self) -> &'static str {
        match &self.access {
            Access::Credentials(_) => {
                "EBB_CATALOG_CREDENTIAL must be of a client that may create and change the table, with \
                 EBB_CATALOG_SCOPE if the catalog needs another scope"
            }
            Access::Open | Access::Token(_) => {
                "EBB_CATALOG_TOKEN must hold a token that may create and change the table"
            }
        }
    }

    fn issued(&self) -> MutexGuard<'_, Option<Issued>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the status with which catalogs refuse an expired token (Iceberg's REST specification).
fn token_expired() -> StatusCode {
    StatusCode::from_u16(419).unwrap_or(StatusCode::UNAUTHORIZED)
}

impl Credentials {
    /// Requests a token. Its lifetime is counted from `now`, the time before the request.
    fn request(&self, transport: &Transport, now: Instant) -> Result<Issued, Answer> {
        let sent = transport
            .request(Method::POST, self.server.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(self.form());
        let server = &self.server;
        let (status, body) = match transport.answer(sent) {
            Ok(answered) => answered,
            Err(reason) => {
                let reason = format!("the OAuth2 server {server}: {reason}");
                return Err(Answer::Unknown { reason });
            }
        };
        if status.is_success() {
            return self.issued(&body, now).map_err(|problem| {
                refused(format!(
                    "the answer of the OAuth2 server {server} {problem}"
                ))
            });
        }
        let body: RefusedBody = serde_json::from_slice(&body).unwrap_or_default();
        let mut reason = format!("the OAuth2 server {server} answers {status}");
        for part in [body.error, body.error_description].into_iter().flatten() {
            reason.push_str(": ");
            reason.push_str(&for_people(&self.hide(&part)));
        }
        if may_pass(status) {
            return Err(Answer::Unknown { reason });
        }
        reason.push_str(
            "; EBB_CATALOG_CREDENTIAL, EBB_CATALOG_SCOPE and EBB_CATALOG_OAUTH2_SERVER_URI must be those \
             of a client that the server has",
        );
        Err(refused(reason))
    }

    /// Returns the body of the request for a token: a URL-encoded form.
    fn form(&self) -> String {
        let mut url = self.server.clone();
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("grant_type", "client_credentials");
        if let Some(client_id) = &self.client_id {
            pairs.append_pair("client_id", client_id);
        }
        pairs.append_pair("client_secret", &self.secret);
        pairs.append_pair("scope", &self.scope);
        drop(pairs);
        url.query().unwrap_or_default().to_owned()
    }

    /// Returns a text with dots in place of the secret, both as it is and URL-encoded, as
    /// [`form`](Self::form) sends it: a server's error message may quote the request.
    fn hide(&self, text: &str) -> String {
        let mut url = self.server.clone();
        url.query_pairs_mut().append_key_only(&self.secret);
        let escaped = url.query().unwrap_or_default();
        text.replace(&self.secret[..], "...")
            .replace(escaped, "...")
    }

    /// Reads the answer of a server that issues a token.
    ///
    /// # Errors
    /// A description of the fault, which quotes nothing of the answer.
    fn issued(&self, body: &[u8], now: Instant) -> Result<Issued, &'static str> {
        let body: IssuedBody =
            serde_json::from_slice(body).map_err(|_| "has no token in JSON, access_token")?;
        let token = body.access_token;
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a token that is not printable ASCII");
        }
        let is_bearer = |kind: &String| kind.eq_ignore_ascii_case("bearer");
        if !body.token_type.as_ref().is_none_or(is_bearer) {
            return Err("has a token that is no bearer token");
        }
        let lifetime = body.expires_in.as_ref().and_then(seconds);
        let renewed_from = lifetime.and_then(|lifetime| now.checked_add(before_end_of(lifetime)));
        Ok(Issued {
            token,
            renewed_from,
        })
    }
}

/// Returns the answer to a request for which there is no token. Its status is always 401, whatever the OAuth2
/// server answered: a 404 would be taken for the catalog's answer that it has no such table.
fn refused(reason: String) -> Answer {
    Answer::Refused {
        status: StatusCode::UNAUTHORIZED,
        reason,
    }
}

/// Returns the duration of a number of seconds, which may be a text; `None` if it is no whole number.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    seconds.map(Duration::from_secs)
}

/// Returns how long after its issue a token with this lifetime is replaced by a new one.
fn before_end_of(lifetime: Duration) -> Duration {
    lifetime.saturating_sub((lifetime / 5).min(EARLY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let s = Duration::from_secs;
        for (lifetime_s, after_s) in [(0, 0), (10, 8), (450, 360), (3600, 3510)] {
            assert_eq!(before_end_of(s(lifetime_s)), s(after_s));
        }
        assert_eq!(seconds(&Value::from("3599")), Some(s(3599)));
        assert_eq!(seconds(&Value::from(3599)), Some(s(3599)));
        assert_eq!(seconds(&Value::from("soon")), None);
    }
}
