//! GRANT, REVOKE, LIST of permissions.

pub use ebb_model::access::Permission;

use super::{Name, QualifiedName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionStatement {
    /// `GRANT p ON resource TO role`.
    Grant(PermissionGrant),
    /// `REVOKE p ON resource FROM role`.
    Revoke(PermissionGrant),
    List(ListPermissions),
}

/// A GRANT or REVOKE: the permissions, the resource that they are on, and the role that gets or
/// loses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionGrant {
    pub permissions: Permissions,
    pub on: Resource,
    pub role: Name,
}

/// `LIST p [ON resource] [OF role] [NORECURSIVE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPermissions {
    /// Lists only these permissions.
    pub permissions: Permissions,
    /// Lists only permissions on this resource, and on those that contain it.
    pub on: Option<Resource>,
    /// Lists only permissions of this role, and of the roles granted to it.
    pub of: Option<Name>,
    /// `NORECURSIVE`: leaves out permissions on the resources that contain `on`.
    pub directly: bool,
}

/// `ALL PERMISSIONS`, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permissions {
    /// All permissions that apply to the resource.
    All,
    /// At least one permission, as written; repetitions are possible.
    Some(Vec<Permission>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(Name),
    /// `ALL TABLES IN KEYSPACE ks`.
    AllTables(Name),
    /// `[TABLE] ks.t`.
    Table(QualifiedName),
    AllRoles,
    Role(Name),
}
