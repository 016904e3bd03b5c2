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

/// Which permissions on what, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionGrant {
    pub permissions: Permissions,
    pub on: Resource,
    pub role: Name,
}

/// `LIST p [ON resource] [OF role] [NORECURSIVE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPermissions {
    /// Only these.
    pub permissions: Permissions,
    /// Only those on this, and on what it lies in.
    pub on: Option<Resource>,
    /// Only those of this role, and of those granted to it.
    pub of: Option<Name>,
    /// `NORECURSIVE`: not those on what the resource lies in.
    pub directly: bool,
}

/// `ALL PERMISSIONS`, or some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permissions {
    /// All that there are for the resource.
    All,
    /// At least one, as written; one may stand twice.
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
