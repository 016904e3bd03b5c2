//! GRANT, REVOKE, LIST of permissions.

pub use ebb_model::access::Permission;

use super::{Name, QualifiedName};

/// A statement about permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionStatement {
    /// `GRANT p ON resource TO role`.
    Grant(PermissionGrant),
    /// `REVOKE p ON resource FROM role`.
    Revoke(PermissionGrant),
    /// `LIST p`.
    List(ListPermissions),
}

/// Which permissions on what, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionGrant {
    /// What may be done.
    pub permissions: Permissions,
    /// With what.
    pub on: Resource,
    /// By whom.
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

/// What permissions are granted on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// `ALL KEYSPACES`.
    AllKeyspaces,
    /// `KEYSPACE ks`.
    Keyspace(Name),
    /// `ALL TABLES IN KEYSPACE ks`.
    AllTables(Name),
    /// `[TABLE] ks.t`.
    Table(QualifiedName),
    /// `ALL ROLES`.
    AllRoles,
    /// `ROLE r`.
    Role(Name),
}
