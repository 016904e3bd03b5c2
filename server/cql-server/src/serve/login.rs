//! Logins by name and password, within the limit on wrong passwords of an address.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};

use super::failed_logins::FailedLogins;
use crate::access::{Login, User};
use crate::error::Result;

/// A login whose password has to be verified on another thread. First the request and then its
/// reply contain the attempt. While the attempt exists, the session accepts no other login. It is
/// dropped with the request or the reply, so the client can try again even if the request was
/// rejected or panicked.
#[derive(Debug)]
pub(super) struct LoginAttempt;

/// The result of a login that ran on another thread, where its password is verified.
pub(super) struct EndedLogin {
    pub attempt: Arc<LoginAttempt>,
    /// The user; `None` if the login was rejected.
    pub user: Option<Arc<User>>,
}

/// Returns the user of recently verified credentials; `None` if they have to be [verified](verify).
/// Takes microseconds.
///
/// # Errors
/// Bad credentials, or too many wrong passwords from this address.
pub(super) fn recall(
    login: &Login,
    failed: &FailedLogins,
    address: IpAddr,
    token: Option<&[u8]>,
    now: Instant,
) -> Result<Option<Arc<User>>> {
    if !failed.may_try(address, now) {
        return Err(too_many_failures());
    }
    login.recall(token)
}

/// Returns the user of these credentials. Takes tens of milliseconds of CPU time.
///
/// # Errors
/// Bad credentials, or too many wrong passwords from this address.
pub(super) fn verify(
    login: &Login,
    failed: &FailedLogins,
    address: IpAddr,
    token: Option<&[u8]>,
) -> Result<Arc<User>> {
    // The connections of a pool arrive together, so only the first one is verified.
    if let Some(user) = recall(login, failed, address, token, Instant::now())? {
        return Ok(user);
    }
    if !failed.begin(address, Instant::now()) {
        return Err(too_many_failures());
    }
    let user = login.verify(token).inspect_err(|_| failed.was_wrong())?;
    failed.was_right(address, Instant::now());
    Ok(user)
}

fn too_many_failures() -> ErrorResponse {
    let message = "Too many failed logins from this address; try again later";
    ErrorResponse::new(ErrorKind::BadCredentials, message)
}
