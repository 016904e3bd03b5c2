//! Bearer tokens: who may ask a server over TCP, and for what.
//!
//! ```text
//!   ebb token create ─> token, shown once ─> Authorization: Bearer ...
//!          │                                        │
//!          v  its SHA-256                           v
//!      tokens.json, in the database's directory ─> Tokens::record_of
//! ```
//!
//! What always holds: no file holds a token, only hashes. A token is 256 bits of the
//! system's randomness, so a fast hash is enough, and to compare hashes tells nothing of a
//! token by its time.

mod file;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ebb_model::access::Granted;
pub use file::{FILE, TokenFile, TokenFileError, WatchedTokens};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What every token begins with, so that scanners for secrets find it.
const PREFIX: &str = "ebb_";
const ID_BYTES: usize = 4;
const SECRET_BYTES: usize = 32;

/// What a token is good for. Each includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To look: jobs, metrics.
    Read,
    /// To submit, cancel and discard jobs.
    Jobs,
    /// Everything.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Jobs, Self::Admin];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Jobs => "jobs",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of read, jobs, admin"))
    }
}

/// A token, as whoever asks shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: [u8; ID_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for Token {
    /// Not the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&hex(&self.id)).finish()
    }
}

impl Token {
    /// One that nobody else has.
    #[must_use]
    pub fn random() -> Self {
        use rand::Rng;
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        let mut random = rand::rng();
        random.fill_bytes(&mut id);
        random.fill_bytes(&mut secret);
        Self { id, secret }
    }

    /// As it is shown.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", hex(&self.id), hex(&self.secret))
    }

    /// By which it is known; no secret.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// The hash of the secret, which files and maps keep in place of the token.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.secret).into()
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (id, secret) = text
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('_'))
            .ok_or(())?;
        Ok(Self {
            id: of_hex(id).ok_or(())?,
            secret: of_hex(secret).ok_or(())?,
        })
    }
}

/// The role of CQL that a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRole {
    /// The name of the role.
    pub name: String,
    /// The id of the role, 16 hexadecimal digits. A role that is created again under the same name
    /// has another id, and the token is invalid.
    pub id: String,
}

/// The role of a principal, with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActingRole {
    /// The name of the role.
    pub name: String,
    /// The permissions of the role, with those of the roles that were granted to it.
    pub granted: Arc<Granted>,
}

/// The origin of a request, with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The id of the request's token; empty for a request without one.
    pub id: String,
    /// The name of the token, as its creator chose it.
    pub name: String,
    /// The scope of the request.
    pub scope: Scope,
    /// The role whose permissions the request has; `None` if the scope alone limits it.
    pub role: Option<ActingRole>,
}

impl Principal {
    /// The server's own user, who may do everything.
    #[must_use]
    pub fn owner() -> Self {
        Self {
            id: String::new(),
            name: "the server's user".to_string(),
            scope: Scope::Admin,
            role: None,
        }
    }

    /// The principal of a request that needs no token and has none.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            scope: Scope::Read,
            role: None,
        }
    }
}

/// The record of a token in the token file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// The public part of the token.
    pub id: String,
    /// The name of the token, as its creator chose it.
    pub name: String,
    /// The scope of the token.
    pub scope: Scope,
    /// The role that the token belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TokenRole>,
    /// The hash of the secret, in hexadecimal digits.
    sha256: String,
    /// When it was made, in seconds since 1970.
    pub created_at_unix_s: u64,
    /// When it ends, in seconds since 1970; `None`: never.
    pub expires_at_unix_s: Option<u64>,
}

impl TokenRecord {
    /// That of a token made at `now`, good for `lifetime`; `None`: for ever.
    #[must_use]
    pub fn new(
        token: &Token,
        name: &str,
        scope: Scope,
        now: SystemTime,
        lifetime: Option<Duration>,
    ) -> Self {
        let created_at_unix_s = unix_s(now);
        let expires = lifetime.map(|lifetime| created_at_unix_s.saturating_add(lifetime.as_secs()));
        Self {
            id: token.id(),
            name: name.to_string(),
            scope,
            role: None,
            sha256: hex(&token.sha256()),
            created_at_unix_s,
            expires_at_unix_s: expires,
        }
    }

    /// Whether it is over at `now`.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at_unix_s
            .is_some_and(|end_s| end_s <= unix_s(now))
    }
}

/// All that are good, and those that were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens(Vec<TokenRecord>);

impl Tokens {
    /// The record of a token that is valid at `now`; `None` for any other token.
    #[must_use]
    pub fn record_of(&self, token: &Token, now: SystemTime) -> Option<&TokenRecord> {
        let (id, sha256) = (token.id(), hex(&token.sha256()));
        let mut of_id = self.0.iter().filter(|record| record.id == id);
        let record = of_id.find(|record| record.sha256 == sha256)?;
        (!record.is_expired(now)).then_some(record)
    }

    /// Each of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &TokenRecord> {
        self.0.iter()
    }

    /// Adds one.
    pub fn add(&mut self, record: TokenRecord) {
        self.0.push(record);
    }

    /// Takes one out. False where there is none of that id.
    pub fn revoke(&mut self, id: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|record| record.id != id);
        self.0.len() < before
    }
}

fn unix_s(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == 2 * N && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    is_hex.then_some(bytes)
}

#[cfg(test)]
mod tests;
