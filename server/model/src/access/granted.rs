//! The decision: what a role may do, with all that was granted to it.

use std::collections::HashMap;

use super::permission::{Permission, PermissionSet};
use super::resource::Resource;

/// A permission that a statement requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The permission.
    pub permission: Permission,
    /// The resource that it is for.
    pub on: Resource,
}

/// What a role may do, itself and by the roles that it is a member of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Granted {
    /// The role's own [`id`](super::Role::id).
    pub id: u64,
    /// Whether the role itself may log in.
    pub can_login: bool,
    /// Whether it may do everything.
    pub is_superuser: bool,
    pub(super) permissions: HashMap<Resource, PermissionSet>,
}

impl Granted {
    /// Whether it may do that with the resource: by a permission on it, or on something that
    /// it lies in.
    pub fn permits(&self, need: &Need) -> bool {
        let on = |resource: &Resource| {
            let set = self.permissions.get(resource);
            set.is_some_and(|set| set.contains(need.permission))
        };
        self.is_superuser || need.on.chain().any(|resource| on(&resource))
    }
}
