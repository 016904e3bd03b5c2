//! Sessions of browsers, which send a cookie instead of a token because they cannot add a header to
//! every request.
//!
//! A session permits what the token permits that it was begun with, as long as that token is valid:
//! each request looks the token up, and ends the session if the token is not valid any more. Sessions
//! end with the server's process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};

use crate::tokens::Token;

/// The path at which pages log in and out.
pub(super) const SESSION: &str = "/v1/session";
/// The name of the session cookie, without the port of the server.
const COOKIE_NAME: &str = "ebb_session";
/// The prefix of the name of a cookie that is sent over TLS only. Browsers accept such a name only from a
/// response over TLS, so a server in the clear at another port of the address cannot replace the cookie.
const SECURE_PREFIX: &str = "__Host-";
/// The most sessions at once. A further one ends the session that was used least recently.
const SESSIONS_MAX: usize = 1000;
/// The most sessions of one token at once.
const SESSIONS_OF_TOKEN_MAX: usize = 50;
/// The time without a request after which a session ends. An open stream of events keeps its session alive:
/// the server checks the credential of a stream again and again, and each check counts as a request.
const IDLE_MAX: Duration = Duration::from_secs(12 * 3600);

/// The sessions of a server, by the hashes of their cookies. The cookies themselves are not kept.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    of: Mutex<HashMap<[u8; 32], Session>>,
}

#[derive(Debug)]
struct Session {
    token: Token,
    used_at: Instant,
}

impl Sessions {
    /// Begins a session, and returns the value of its cookie. If the token has
    /// [`SESSIONS_OF_TOKEN_MAX`] sessions already, first ends the least recently used one of these.
    /// If the server has [`SESSIONS_MAX`] sessions after that, also ends the least recently used
    /// one of all.
    pub(super) fn begin(&self, token: Token, now: Instant) -> Token {
        let cookie = Token::random();
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.retain(|_, session| session.is_on(now));
        // Many sessions of one token do not end those of another.
        let own = |session: &Session| session.token == token;
        if of.values().filter(|session| own(session)).count() >= SESSIONS_OF_TOKEN_MAX {
            end_oldest(&mut of, own);
        }
        if of.len() >= SESSIONS_MAX {
            end_oldest(&mut of, |_| true);
        }
        let session = Session {
            token,
            used_at: now,
        };
        of.insert(cookie.sha256(), session);
        cookie
    }

    /// Returns the token of the session with this cookie, and counts this as a use of the session. Returns
    /// `None` if there is no such session any more.
    pub(super) fn token(&self, cookie: &Token, now: Instant) -> Option<Token> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let session = of.get_mut(&cookie.sha256())?;
        if !session.is_on(now) {
            return None;
        }
        session.used_at = now;
        Some(session.token.clone())
    }

    /// Ends the session with this cookie, if there is one.
    pub(super) fn end(&self, cookie: &Token) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.remove(&cookie.sha256());
    }
}

/// Ends the least recently used session among those for which `is_candidate` is true.
fn end_oldest(of: &mut HashMap<[u8; 32], Session>, is_candidate: impl Fn(&Session) -> bool) {
    let candidates = of.iter().filter(|(_, session)| is_candidate(session));
    let oldest = candidates.min_by_key(|(_, session)| session.used_at);
    if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
        of.remove(&oldest);
    }
}

impl Session {
    fn is_on(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used_at) < IDLE_MAX
    }
}

/// The session cookie of a server: its name and its attributes.
///
/// Browsers send the cookies of a host to all ports of it. So the name has the port of the server: otherwise
/// a login at one server would replace the cookie of another server of the same host, and end its session.
#[derive(Debug, Clone)]
pub(super) struct SessionCookie {
    name: String,
    /// True if browsers send the cookie over TLS only.
    is_secure: bool,
}

impl SessionCookie {
    /// Creates the cookie of the server at `port`; `None` for a server with its socket only, which sets no
    /// cookie. `is_secure` is true if the port has TLS.
    pub(super) fn of(port: Option<u16>, is_secure: bool) -> Self {
        let prefix = if is_secure { SECURE_PREFIX } else { "" };
        let port = port.map_or_else(String::new, |port| format!("_{port}"));
        Self {
            name: format!("{prefix}{COOKIE_NAME}{port}"),
            is_secure,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the session cookie of a request; `None` if there is none in the form of a token.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<Token> {
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
        pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.name).then(|| value.parse().ok())?
        })
    }

    /// Returns the `Set-Cookie` header of a new session. Scripts cannot read the cookie, and requests from
    /// other sites do not carry it.
    pub(super) fn set(&self, cookie: &Token) -> HeaderValue {
        let (name, value, attributes) = (&self.name, cookie.reveal(), self.attributes());
        of_text(&format!("{name}={value}; {attributes}"))
    }

    /// Returns the `Set-Cookie` header that deletes the cookie.
    pub(super) fn delete(&self) -> HeaderValue {
        let (name, attributes) = (&self.name, self.attributes());
        of_text(&format!("{name}=; Max-Age=0; {attributes}"))
    }

    fn attributes(&self) -> &'static str {
        if self.is_secure {
            "HttpOnly; SameSite=Strict; Path=/; Secure"
        } else {
            "HttpOnly; SameSite=Strict; Path=/"
        }
    }
}

fn of_text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("a cookie is ASCII")
}

/// Returns whether a page of this server sent the request, according to the header `Sec-Fetch-Site`, or, in a
/// request without it, `Origin` and `Host`. Returns false if these are missing, too. Apart from a logout
/// (`DELETE /v1/session`), only requests for which this is true may change something with a cookie.
pub(super) fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => {
            let origin = text(ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
            let host = text(HOST.as_str());
            origin.is_some_and(|(_, origin)| host.is_some_and(|host| host == origin))
        }
    }
}

/// Returns whether the headers `Sec-Fetch-Site` or `Origin` show that a page of another site sent the
/// request; false if both are missing.
pub(super) fn is_other_page(headers: &HeaderMap) -> bool {
    let names_site = headers.contains_key("sec-fetch-site") || headers.contains_key(ORIGIN);
    names_site && !is_own_page(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sessions_of_one_token_end_none_of_another() {
        let sessions = Sessions::default();
        let start = Instant::now(); // clock: the base of a manual clock
        let (token, other) = (Token::random(), Token::random());
        let cookie = sessions.begin(other.clone(), start);
        let at = |n: u64| start + Duration::from_millis(n);
        let begun: Vec<_> = (1..=2000)
            .map(|n| sessions.begin(token.clone(), at(n)))
            .collect();
        assert_eq!(sessions.token(&cookie, at(2001)), Some(other));
        let is_on = |cookie: &&Token| sessions.token(cookie, at(2001)).is_some();
        assert_eq!(begun.iter().filter(is_on).count(), SESSIONS_OF_TOKEN_MAX);
        assert!(is_on(&&begun[1999]));
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |&(name, value)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        pairs.iter().map(header).collect()
    }

    #[test]
    fn a_session_is_on_while_it_is_used_and_until_it_is_ended() {
        let sessions = Sessions::default();
        let start = Instant::now(); // clock: the base of a manual clock
        let token = Token::random();
        let cookie = sessions.begin(token.clone(), start);
        assert_ne!(cookie, token);
        let at = |time: u32| start + IDLE_MAX / 2 * time;
        assert_eq!(sessions.token(&cookie, at(1)), Some(token.clone()));
        assert_eq!(sessions.token(&cookie, at(2)), Some(token.clone()), "used");
        assert_eq!(sessions.token(&cookie, at(4)), None);
        assert_eq!(sessions.token(&token, start), None);
        let other = sessions.begin(token.clone(), start);
        sessions.end(&other);
        assert_eq!(sessions.token(&other, start), None);
    }

    #[test]
    fn of_too_many_sessions_the_least_used_ends() {
        let sessions = Sessions::default();
        let start = Instant::now(); // clock: the base of a manual clock
        let at = |ms: usize| start + Duration::from_millis(ms as u64);
        let begun = |ms| sessions.begin(Token::random(), at(ms));
        let all: Vec<_> = (0..SESSIONS_MAX).map(begun).collect();
        assert!(sessions.token(&all[0], at(SESSIONS_MAX)).is_some());
        let last = begun(SESSIONS_MAX + 1);
        let on = |cookie| sessions.token(cookie, at(SESSIONS_MAX + 2)).is_some();
        assert_eq!(
            (on(&all[0]), on(&all[1]), on(&all[2]), on(&last)),
            (true, false, true, true)
        );
    }

    #[test]
    fn only_pages_of_the_server_are_its_own() {
        for (pairs, own, other) in [
            (&[("sec-fetch-site", "same-origin")][..], true, false),
            (&[("sec-fetch-site", "same-site")], false, true),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://a"),
                    ("host", "a"),
                ],
                false,
                true,
            ),
            (&[("origin", "http://a:1"), ("host", "a:1")], true, false),
            (&[("origin", "http://a:2"), ("host", "a:1")], false, true),
            (&[("origin", "null"), ("host", "a:1")], false, true),
            (&[("host", "a:1")], false, false),
        ] {
            let headers = headers(pairs);
            assert_eq!(
                (is_own_page(&headers), is_other_page(&headers)),
                (own, other),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let (cookie, token) = (SessionCookie::of(Some(9043), false), Token::random());
        let text = format!("a=b; ebb_session_9043={}; c", token.reveal());
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(&text).unwrap());
        assert_eq!(cookie.find(&headers), Some(token));
        headers.insert(COOKIE, HeaderValue::from_static("ebb_session_9043=x"));
        assert_eq!(cookie.find(&headers), None);
    }

    /// Regression: all servers of an address had one cookie, and a login at one of them ended the sessions of
    /// the others.
    #[test]
    fn servers_at_different_ports_have_different_cookies() {
        let of = SessionCookie::of;
        let name = |port, is_secure| of(port, is_secure).name().to_owned();
        assert_eq!(name(Some(9043), false), "ebb_session_9043");
        assert_eq!(name(Some(9043), true), "__Host-ebb_session_9043");
        assert_eq!(name(None, false), "ebb_session");
        let (first, second) = (of(Some(9043), false), of(Some(9044), false));
        let (token, other) = (Token::random(), Token::random());
        // A browser sends both cookies to both servers.
        let pair = |cookie: &SessionCookie, token: &Token| {
            let set = cookie.set(token).to_str().unwrap().to_owned();
            set.split("; ").next().unwrap().to_owned()
        };
        let both = format!("{}; {}", pair(&first, &token), pair(&second, &other));
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(&both).unwrap());
        assert_eq!(first.find(&headers), Some(token));
        assert_eq!(second.find(&headers), Some(other));
        assert_eq!(of(Some(9045), false).find(&headers), None);
    }
}
