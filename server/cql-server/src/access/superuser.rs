//! The first superuser: whoever turns authentication on must be able to log in, and nobody
//! else.

use ebb_model::access::{Role, RoleError};
use ebb_tables::{CatalogError, RoleStore};

use super::passwords;

/// The role that is made where nobody could log in to make others.
pub const FIRST_SUPERUSER: &str = "ebb";

/// Letters of a password that is drawn: 32 to a letter, so 130 bits.
const LETTERS: usize = 26;
/// Without those that are taken for each other.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Makes [`FIRST_SUPERUSER`] with a password that is drawn, where no role is a superuser that
/// can log in by a password. None is made where a role of this name is there, or may be, that
/// cannot be read. `keep` is given the password before the role is made; what it
/// says is what comes of it.
///
/// # Errors
/// Inside, what `keep` says; nothing is made. Outside, as the store, and where there is a role
/// of this name.
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
    // Everything else is served. The start has logged what is wrong, and what to do.
    if state.hides(FIRST_SUPERUSER) {
        return Ok(None);
    }
    if roles_now.get(FIRST_SUPERUSER).is_some() {
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

/// Why there is no first superuser.
#[derive(Debug, thiserror::Error)]
pub enum FirstSuperuserError {
    /// A role of that name is there, and others may be members of it.
    #[error(
        "no superuser can log in, and there is a role {} already: start without authentication on \
         a loopback address and create a superuser",
        FIRST_SUPERUSER
    )]
    Taken,
    /// The password cannot be hashed.
    #[error("{0}")]
    Hash(String),
    /// The store failed.
    #[error("{0}")]
    Catalog(CatalogError),
}
