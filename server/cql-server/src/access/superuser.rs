//! The first superuser. An operator who turns authentication on must be able to log in; no other
//! client may get in meanwhile.

use ebb_model::access::{Role, RoleError};
use ebb_tables::{CatalogError, RoleStore};

use super::passwords;

/// The name of the first superuser.
pub const FIRST_SUPERUSER: &str = "ebb";

/// The number of letters of a random password: each letter is one of 32, so the password has 130
/// random bits.
const LETTERS: usize = 26;
/// Letters and digits without those that look alike (`l`, `1`, `o`, `0`).
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Creates [`FIRST_SUPERUSER`] with a random password, unless there is a superuser that can log in
/// with a password. Also creates no role if an unreadable record is, or may be, the record of
/// [`FIRST_SUPERUSER`], or if this role exists and another one is unreadable. Calls `keep` with the
/// password before the role is created. If `keep` fails to write the password down, no role has this
/// password. Returns the result of `keep`, or `None` if `keep` was not called.
///
/// # Errors
/// The inner result has the error of `keep`; no role is created then. The outer result has all
/// other errors.
pub fn first_superuser<T, E>(
    roles: &RoleStore,
    keep: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<Result<T, E>>, FirstSuperuserError> {
    let state = roles.state();
    let roles_now = state.roles();
    let can = |(name, role): (&std::sync::Arc<str>, &std::sync::Arc<Role>)| {
        role.can_login && role.password_hash.is_some() && roles_now.is_superuser(name)
    };
    if roles_now.iter().any(can) {
        return Ok(None);
    }
    let is_taken = roles_now.get(FIRST_SUPERUSER).is_some();
    // The unreadable role may be a superuser. The server serves everything else. The open has logged the
    // unreadable record and its repair.
    if state.hides(FIRST_SUPERUSER) || is_taken && !state.all_unreadable().is_empty() {
        return Ok(None);
    }
    if is_taken {
        return Err(FirstSuperuserError::Taken);
    }
    let draw = || ALPHABET[usize::from(rand::random::<u8>() & 31)] as char;
    let password: String = (0..LETTERS).map(|_| draw()).collect();
    let role = Role {
        id: rand::random(),
        is_superuser: true,
        can_login: true,
        password_hash: Some(passwords::hash(&password).map_err(FirstSuperuserError::Hash)?),
        ..Role::default()
    };
    let kept = match keep(&password) {
        Ok(kept) => kept,
        Err(error) => return Ok(Some(Err(error))),
    };
    let made = roles.change(|roles| roles.with_new(FIRST_SUPERUSER, role).map(Some));
    made.map_err(FirstSuperuserError::Catalog)?
        .map_err(|_: RoleError| FirstSuperuserError::Taken)?;
    Ok(Some(Ok(kept)))
}

/// The reasons why the first superuser could not be created.
#[derive(Debug, thiserror::Error)]
pub enum FirstSuperuserError {
    /// A role named [`FIRST_SUPERUSER`] exists, and all roles can be read. Making it a superuser would
    /// make its members superusers.
    #[error(
        "no superuser can log in, and there is a role {} already: start without authentication on \
         a loopback address and create a superuser",
        FIRST_SUPERUSER
    )]
    Taken,
    /// The random password could not be hashed.
    #[error("{0}")]
    Hash(String),
    /// The roles could not be written to the store.
    #[error("{0}")]
    Catalog(CatalogError),
}
