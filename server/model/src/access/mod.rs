//! Who may do what: roles, and their permissions on resources. Without I/O.
//!
//! ```text
//! roles        all roles: who is granted to whom, as changes from one state to the next
//! role         one role, as it is stored
//! granted      what a role may do with all that was granted to it: the decision
//! resource     what permissions are on, and what it lies in
//! permission   what may be done
//! ```
//!
//! The rules and the words are those of Cassandra 4.1. A role has the permissions of every
//! role that was granted to it, and theirs; grants never go round in a circle. A permission
//! on a resource holds for all that lies in it.

mod granted;
mod permission;
mod resource;
mod role;
mod roles;
#[cfg(test)]
mod tests;

pub use granted::{Granted, Need};
pub use permission::{Permission, PermissionSet};
pub use resource::Resource;
pub use role::{OwnedSnapshot, Role};
pub use roles::{RoleError, Roles};
