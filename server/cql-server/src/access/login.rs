//! Logins: from a token of AUTH_RESPONSE to a user. The tokens are SASL PLAIN (RFC 4616), as for
//! Cassandra's `PasswordAuthenticator`. A client certificate with an identity logs its owner in
//! without a token, as with Cassandra's `MutualTlsWithPasswordFallbackAuthenticator`.
//!
//! A missing role, a role without a password and a wrong password take the same time and get the
//! same error, so that a client cannot find out which roles exist. If any role cannot be read, this
//! error mentions it for every name.

use std::fmt;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use ebb_model::access::Role;
use ebb_tables::Catalog;

use super::Passwords;
use super::user::{User, not_permitted};
use crate::error::Result;

/// The class name of the authenticator in the AUTHENTICATE response. Drivers recognize the class,
/// and log in with a name and a password.
pub const AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";
/// The text that is appended to the error message of a rejected login while some roles cannot be
/// read.
const UNREADABLE_ROLES: &str = "; some roles cannot be read, see the server's log";
/// The longest accepted token in bytes, far above any real name and password.
pub(super) const TOKEN_BYTES_MAX: usize = 4096;

/// Authenticates clients by the roles of a catalog.
pub struct Login {
    catalog: Arc<Catalog>,
    passwords: Passwords,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

struct Credentials<'t> {
    name: &'t str,
    password: &'t [u8],
}

impl Login {
    /// Creates a `Login` that authenticates clients by the roles of `catalog`.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            passwords: Passwords::new(),
        }
    }

    /// Returns the user whose role has this identity, or `None` if no role has it. The identity
    /// comes from a certificate that TLS has verified. Takes microseconds.
    ///
    /// # Errors
    /// Bad credentials, if the role may not log in.
    pub fn recognize(&self, identity: &str) -> Result<Option<Arc<User>>> {
        let state = self.catalog.roles().state();
        let found = state.roles().of_identity(identity);
        found.map(|(name, role)| user(name, role)).transpose()
    }

    /// Returns the user if the name and the password in `token` were verified recently. If `None`
    /// is returned, the caller has to [`verify`](Self::verify) the token. Takes microseconds.
    ///
    /// # Errors
    /// Bad credentials, if the token is malformed or the role may not log in.
    pub fn recall(&self, token: Option<&[u8]>) -> Result<Option<Arc<User>>> {
        let given = credentials(token)?;
        let state = self.catalog.roles().state();
        let role = state.roles().get(given.name);
        match role.and_then(|role| Some((role, role.password_hash.as_deref()?))) {
            Some((role, stored)) if self.passwords.is_cached(stored, given.password) => {
                user(given.name, role).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Verifies the token and returns its user. Takes tens of milliseconds of CPU time.
    ///
    /// # Errors
    /// Bad credentials, if the token is malformed, the password is wrong or the role may not log
    /// in.
    pub fn verify(&self, token: Option<&[u8]>) -> Result<Arc<User>> {
        let given = credentials(token)?;
        let state = self.catalog.roles().state();
        let role = state.roles().get(given.name);
        let stored = role.and_then(|role| role.password_hash.as_deref());
        match (self.passwords.verify(stored, given.password), role) {
            (true, Some(role)) => user(given.name, role),
            _ => {
                let all_are_read = state.all_unreadable().is_empty();
                let doubt = if all_are_read { "" } else { UNREADABLE_ROLES };
                refused(format!(
                    "Provided username {} and/or password are incorrect{doubt}",
                    given.name
                ))
            }
        }
    }
}

/// Returns the name in a client's token, whether or not a role of this name exists; `None` if the
/// token is malformed.
pub(crate) fn claimed_name(token: &[u8]) -> Option<&str> {
    credentials(Some(token)).ok().map(|given| given.name)
}

/// Returns the user of an authenticated role, or an error if the role may not log in.
fn user(name: &str, role: &Role) -> Result<Arc<User>> {
    if role.can_login {
        Ok(Arc::new(User::logged_in(name, role.id)))
    } else {
        refused(not_permitted(name))
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T> {
    Err(ErrorResponse::new(ErrorKind::BadCredentials, message))
}

/// Parses `[role] NUL name NUL password`, and ignores the role.
fn credentials(token: Option<&[u8]>) -> Result<Credentials<'_>> {
    const FORMAT: &str = "Credential format error: username or password is empty or contains \
                          NUL(\\0) character";
    let token = token.unwrap_or_default();
    if token.len() > TOKEN_BYTES_MAX {
        return refused(format!(
            "Credential format error: username and password are longer than {TOKEN_BYTES_MAX} bytes"
        ));
    }
    let mut parts = token.split(|byte| *byte == 0).rev();
    let (password, name) = (parts.next(), parts.next());
    // Before the name there may be the role, but nothing in front of the role.
    if parts.next().is_some() && parts.next().is_some() {
        return refused(FORMAT);
    }
    let Some(password) = password.filter(|password| !password.is_empty() && name.is_some()) else {
        return refused("Password must not be null");
    };
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return refused("Authentication ID must not be null");
    };
    match std::str::from_utf8(name) {
        Ok(name) => Ok(Credentials { name, password }),
        Err(_) => refused(FORMAT),
    }
}
