//! Bearer tokens: the credentials of clients that connect over TCP, with their permissions.
//!
//! ```text
//!   ebb token create ─> token, shown once ─> Authorization: Bearer ...
//!          │                                        │
//!          v  its SHA-256                           v
//!      tokens.json, in the database's directory ─> Tokens::record_of
//! ```
//!
//! Invariant: files hold hashes, and never a token. The secret of a token is 256 random bits from a
//! cryptographic generator, so a fast hash suffices. The time to compare two hashes reveals nothing about
//! the token.

mod file;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

pub use ebb_model::access::ActingRole;
pub use file::{FILE, TokenFile, TokenFileError, WatchedTokens};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The prefix of every token. Scanners for leaked secrets look for such prefixes.
const PREFIX: &str = "ebb_";
const ID_BYTES: usize = 4;
const SECRET_BYTES: usize = 32;

/// The scope of a token. Each scope includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Permits reads, such as of jobs and metrics.
    Read,
    /// Permits to start, cancel and discard jobs, and to create, renew and delete snapshots.
    Jobs,
    /// Permits everything.
    Admin,
}

impl Scope {
    /// All scopes, ascending.
    pub const ALL: [Self; 3] = [Self::Read, Self::Jobs, Self::Admin];

    /// Returns the name in files and requests.
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
        found.ok_or_else(|| format!("'{text}' is no scope: use read, jobs or admin"))
    }
}

/// A token as a client sends it, with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: [u8; ID_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for Token {
    /// Writes the id, without the secret: logs must not hold it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&hex(&self.id)).finish()
    }
}

impl Token {
    /// Makes a token with a random id and a random secret. The generator is cryptographic and seeded by the
    /// system.
    #[must_use]
    pub fn random() -> Self {
        use rand::Rng;
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        let mut random = rand::rng();
        random.fill_bytes(&mut id);
        random.fill_bytes(&mut secret);
        Self { id, secret }
    }

    /// Returns the token as text, with the secret.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", hex(&self.id), hex(&self.secret))
    }

    /// Returns the id, the public part of the token. It names the token in files, logs and commands.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// Returns the hash of the secret. Files keep this hash in place of the secret.
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
    pub name: String,
    /// The id of the role, 16 hexadecimal digits. A role that is created again under the same name
    /// has another id, and the token is invalid.
    pub id: String,
}

/// The origin of a request, with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The id of the request's token; empty for a request without one.
    pub id: String,
    /// The name of the token, as its creator chose it. Without a token, a name for the client, such as that
    /// of its role; empty if the client is not known.
    pub name: String,
    /// The limit on the kinds of requests that are permitted.
    pub scope: Scope,
    /// The role whose permissions the request has; `None` if only the scope limits the request.
    pub role: Option<ActingRole>,
}

impl Principal {
    /// Returns the principal of the server's own user, who may do everything.
    #[must_use]
    pub fn owner() -> Self {
        Self {
            id: String::new(),
            name: "the server's user".to_string(),
            scope: Scope::Admin,
            role: None,
        }
    }

    /// Returns the principal of a client that acts as a role without a token, such as one that has logged in
    /// through CQL. Its scope is the greatest that a token of the role can have.
    #[must_use]
    pub fn of_role(role: ActingRole) -> Self {
        let scope = if role.granted.is_superuser {
            Scope::Admin
        } else {
            Scope::Jobs
        };
        Self {
            id: String::new(),
            name: role.name.clone(),
            scope,
            role: Some(role),
        }
    }

    /// Returns the principal of a request whose token is not checked: one to an open path, a login, or a
    /// logout.
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
    pub scope: Scope,
    /// The role that the token belongs to: requests with the token have at most its permissions. `None` if
    /// only `scope` limits them; a server whose clients log in refuses such a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TokenRole>,
    /// The hash of the secret, in hexadecimal digits.
    sha256: String,
    /// The time at which the token was created, in seconds since 1970.
    pub created_at_unix_s: u64,
    /// The time at which the token expires, in seconds since 1970; `None`: never.
    pub expires_at_unix_s: Option<u64>,
}

impl TokenRecord {
    /// Creates the record of a token that is created at `now`, belongs to no role, and expires after
    /// `lifetime`; if that is `None`, never.
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

    /// Returns whether the token has expired at `now`.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at_unix_s
            .is_some_and(|end_s| end_s <= unix_s(now))
    }
}

/// The records of all tokens, expired ones included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens(Vec<TokenRecord>);

impl Tokens {
    /// Returns the record of a token that is valid at `now`; `None` for any other token.
    #[must_use]
    pub fn record_of(&self, token: &Token, now: SystemTime) -> Option<&TokenRecord> {
        let (id, sha256) = (token.id(), hex(&token.sha256()));
        let mut of_id = self.0.iter().filter(|record| record.id == id);
        let record = of_id.find(|record| record.sha256 == sha256)?;
        (!record.is_expired(now)).then_some(record)
    }

    /// Returns the records in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &TokenRecord> {
        self.0.iter()
    }

    /// Returns the records of the tokens that belong to no role and have not expired at `now`, in the order in
    /// which they were added.
    pub fn without_role(&self, now: SystemTime) -> impl Iterator<Item = &TokenRecord> {
        self.iter()
            .filter(move |record| record.role.is_none() && !record.is_expired(now))
    }

    pub fn add(&mut self, record: TokenRecord) {
        self.0.push(record);
    }

    /// Removes the record with this id. Returns false if there is none.
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
