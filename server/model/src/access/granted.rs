//! The decision whether a role may execute a statement, by all permissions granted to it.

use std::collections::HashMap;
use std::sync::Arc;

use super::permission::{Permission, PermissionSet};
use super::resource::Resource;

/// A permission that a statement requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The required permission.
    pub permission: Permission,
    /// The resource that the permission applies to.
    pub on: Resource,
}

/// The effective permissions of a role: its own and those of the roles that it is a member of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Granted {
    /// The role's own [`id`](super::Role::id).
    pub id: u64,
    /// True if the role itself may log in; membership does not grant this.
    pub can_login: bool,
    /// True if the role or one that it is a member of is a superuser.
    pub is_superuser: bool,
    pub(super) permissions: HashMap<Resource, PermissionSet>,
}

/// A role that sends requests, with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActingRole {
    /// The name of the role.
    pub name: String,
    /// The effective permissions of the role, including those of the roles that were granted to it.
    pub granted: Arc<Granted>,
}

impl Granted {
    /// Returns whether the role is a superuser, or has the permission on the resource itself or on
    /// another resource that contains it.
    pub fn permits(&self, need: &Need) -> bool {
        let on = |resource: &Resource| {
            let set = self.permissions.get(resource);
            set.is_some_and(|set| set.contains(need.permission))
        };
        self.is_superuser || need.on.chain().any(|resource| on(&resource))
    }
}
