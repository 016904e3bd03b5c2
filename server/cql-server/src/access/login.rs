//! A token of AUTH_RESPONSE becomes a user: SASL PLAIN (RFC 4616), as Cassandra's
//! `PasswordAuthenticator` has it. So does the identity of a certificate, without a token, as
//! with its `MutualTlsWithPasswordFallbackAuthenticator`.
//!
//! A role that is not there, one that has no password, and a wrong password take the same
//! time and get the same answer.

use std::fmt;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use ebb_model::access::Role;
use ebb_tables::Catalog;

use super::Passwords;
use super::user::{User, not_permitted};
use crate::error::Result;

/// What drivers know how to answer.
pub const AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";
/// The longest token that is read: nobody's name and password are longer.
pub(super) const TOKEN_BYTES_MAX: usize = 4096;

/// Who may come in.
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
    /// For the roles of a catalog.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            passwords: Passwords::new(),
        }
    }

    /// The user who shows a certificate with this identity, which was verified; `None` where it
    /// is that of no role. Takes microseconds.
    ///
    /// # Errors
    /// Bad credentials, where the role may not log in.
    pub fn recognize(&self, identity: &str) -> Result<Option<Arc<User>>> {
        let state = self.catalog.roles().state();
        let found = state.roles().of_identity(identity);
        found.map(|(name, role)| user(name, role)).transpose()
    }

    /// The user, where this name and password were verified before; `None` where they have to
    /// be [verified](Self::verify). Takes microseconds.
    ///
    /// # Errors
    /// Bad credentials.
    pub fn recall(&self, token: Option<&[u8]>) -> Result<Option<Arc<User>>> {
        let given = credentials(token)?;
        let state = self.catalog.roles().state();
        let role = state.roles().get(given.name);
        match role.and_then(|role| Some((role, role.password_hash.as_deref()?))) {
            Some((role, stored)) if self.passwords.is_remembered(stored, given.password) => {
                user(given.name, role).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The user. Takes some tens of milliseconds of a core.
    ///
    /// # Errors
    /// Bad credentials.
    pub fn verify(&self, token: Option<&[u8]>) -> Result<Arc<User>> {
        let given = credentials(token)?;
        let state = self.catalog.roles().state();
        let role = state.roles().get(given.name);
        let stored = role.and_then(|role| role.password_hash.as_deref());
        match (self.passwords.verify(stored, given.password), role) {
            (true, Some(role)) => user(given.name, role),
            _ => refused(format!(
                "Provided username {} and/or password are incorrect",
                given.name
            )),
        }
    }
}

/// Returns the name that a client gives in its token, whether or not it is that of a role.
pub(crate) fn claimed_name(token: &[u8]) -> Option<&str> {
    credentials(Some(token)).ok().map(|given| given.name)
}

/// The user of this name, who has proved it.
fn user(name: &str, role: &Role) -> Result<Arc<User>> {
    match role.can_login {
        true => Ok(Arc::new(User::logged_in(name, role.id))),
        false => refused(not_permitted(name)),
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T> {
    Err(ErrorResponse::new(ErrorKind::BadCredentials, message))
}

/// `[role] NUL name NUL password`; the role is not looked at.
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
    // What is before the name, and nothing before that.
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
