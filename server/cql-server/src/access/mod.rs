//! Authentication and permissions of clients.
//!
//! ```text
//!   login        a token of AUTH_RESPONSE ─> a user
//!     └ passwords   hashes of passwords, and a cache of verified passwords
//!   user         the user of a connection, and checks of permissions
//!   needs        the permissions that a statement requires, from its syntax tree
//!   roles, identities, permissions   the statements about them
//!   quota        the number of snapshots that a role may hold
//!   superuser    creates the first superuser
//! ```
//!
//! `ebb_model::access` decides what a user may do. This module checks the permissions that a
//! statement requires, in the order and with the error messages of Cassandra 4.1. Without
//! authentication every client is [`User::anyone`], who may do everything.

mod identities;
mod login;
mod needs;
mod passwords;
mod permissions;
mod quota;
mod roles;
mod superuser;
#[cfg(test)]
mod tests;
mod user;

pub use login::Login;
pub(crate) use login::{AUTHENTICATOR, claimed_name};
pub(crate) use needs::{NeedsContext, all_queries_need, needs, reads_at_snapshot, trace_need};
pub(crate) use permissions::execute as execute_permission;
pub(crate) use quota::{note_snapshot, room_for_snapshot};
pub(crate) use roles::execute as execute_role;
pub use superuser::{FIRST_SUPERUSER, FirstSuperuserError, first_superuser};
pub use user::User;

use ebb_cql::protocol::ErrorResponse;
use ebb_model::access::Resource;
use ebb_tables::RoleStore;

use self::passwords::Passwords;
#[cfg(test)]
pub(crate) use self::passwords::hash;
use super::context::SchemaContext;
use super::error::{Result, of_catalog};

/// The context in which a statement about roles or permissions is executed.
#[derive(Clone, Copy)]
pub struct AccessContext<'a> {
    /// The catalog, which contains the roles, and the keyspace in use.
    pub schema: SchemaContext<'a>,
    /// The user of the connection that sent the statement.
    pub user: &'a User,
}

/// Grants the user all permissions on a keyspace or table that their statement created. The caller
/// holds the lock of schema changes.
pub fn grant_to_creator(store: &RoleStore, user: &User, created: &Resource) -> Result<()> {
    let Some(name) = user.name() else {
        return Ok(());
    };
    let granted = store.change(|roles| {
        // Fails if the user's role was dropped meanwhile: another role may have its name by now.
        user.check(store, &[])?;
        let granted = roles.with_permissions(name, created, created.applicable());
        Ok::<_, ErrorResponse>(Some(granted.map_err(of_role)?.0))
    });
    granted.map_err(of_catalog)?.map(drop)
}

fn of_role(error: ebb_model::access::RoleError) -> ErrorResponse {
    ErrorResponse::invalid(error.to_string())
}
