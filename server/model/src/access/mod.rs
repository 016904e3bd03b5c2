//! Roles and their permissions on resources, without I/O.
//!
//! ```text
//! roles            all roles and their memberships, as changes from one state to the next
//! role             one role, as it is stored
//! owned_snapshot   one snapshot that a role created, as it is stored
//! granted          the effective permissions of a role: the decision
//! resource         the objects of permissions, and which contain which
//! permission       the permissions
//! ```
//!
//! The rules and the words are those of Cassandra 4.1. A role has its own permissions and those of
//! every role that was granted to it, directly or through other roles; grants are acyclic. A
//! permission on a resource applies to all resources within it.

mod granted;
mod owned_snapshot;
mod permission;
mod resource;
mod role;
mod roles;
#[cfg(test)]
mod tests;

pub use granted::{ActingRole, Granted, Need};
pub use owned_snapshot::OwnedSnapshot;
pub use permission::{Permission, PermissionSet};
pub use resource::Resource;
pub use role::Role;
pub use roles::{RoleError, Roles};
