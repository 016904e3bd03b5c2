//! The resources that permissions apply to.

use std::fmt;
use std::sync::Arc;

use super::permission::{Permission, PermissionSet};

/// An object that permissions apply to. An arrow points from a resource to the one that contains
/// it.
///
/// ```text
/// table ─► all tables of its keyspace ─► keyspace ─► all keyspaces
/// role ─► all roles
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// All keyspaces.
    AllKeyspaces,
    /// A keyspace, with all its tables.
    Keyspace(Arc<str>),
    /// All tables of a keyspace, without the keyspace itself.
    AllTables(Arc<str>),
    /// A table by its keyspace and name.
    Table(Arc<str>, Arc<str>),
    /// All roles.
    AllRoles,
    /// A role.
    Role(Arc<str>),
}

/// The first part of [`Resource::path`] for keyspaces and tables.
const DATA: &str = "data";
const ROLES: &str = "roles";

impl Resource {
    /// Returns the resource of a keyspace.
    pub fn keyspace(name: &str) -> Self {
        Self::Keyspace(name.into())
    }

    /// Returns the resource of a table.
    pub fn table(keyspace: &str, name: &str) -> Self {
        Self::Table(keyspace.into(), name.into())
    }

    /// Returns the resource of a table in a snapshot. `is_live` is true if the table still exists.
    /// If it was dropped, the resource is all tables of its keyspace: a table of the same name may
    /// have been created later, and a permission on that one must not apply to the dropped table.
    pub fn table_at_snapshot(keyspace: &str, name: &str, is_live: bool) -> Self {
        if is_live {
            Self::table(keyspace, name)
        } else {
            Self::AllTables(keyspace.into())
        }
    }

    /// Returns the resource of a role.
    pub fn role(name: &str) -> Self {
        Self::Role(name.into())
    }

    /// Returns the resource that directly contains this one; `None` for all keyspaces and for all
    /// roles.
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::AllKeyspaces | Self::AllRoles => None,
            Self::Keyspace(_) => Some(Self::AllKeyspaces),
            Self::AllTables(keyspace) => Some(Self::Keyspace(keyspace.clone())),
            Self::Table(keyspace, _) => Some(Self::AllTables(keyspace.clone())),
            Self::Role(_) => Some(Self::AllRoles),
        }
    }

    /// Returns this resource and all that contain it, the innermost first.
    pub fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// Returns the permissions that can be granted on this resource.
    pub fn applicable(&self) -> PermissionSet {
        use Permission::{Alter, Authorize, Create, Describe, Drop, Modify, Select, Snapshot};
        match self {
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) => {
                PermissionSet::of(&[Create, Alter, Drop, Select, Modify, Authorize, Snapshot])
            }
            Self::Table(..) => {
                PermissionSet::of(&[Alter, Drop, Select, Modify, Authorize, Snapshot])
            }
            Self::AllRoles => PermissionSet::of(&[Create, Alter, Drop, Authorize, Describe]),
            Self::Role(_) => PermissionSet::of(&[Alter, Drop, Authorize]),
        }
    }

    /// Returns the name of the resource's class in Cassandra.
    pub fn class(&self) -> &'static str {
        match self {
            Self::AllRoles | Self::Role(_) => "RoleResource",
            _ => "DataResource",
        }
    }

    /// Returns the name of the resource in records and in `system_auth`, as in Cassandra:
    /// `data/ks/t`, `roles/r`.
    pub fn path(&self) -> String {
        match self {
            Self::AllKeyspaces => DATA.to_owned(),
            Self::Keyspace(keyspace) => format!("{DATA}/{keyspace}"),
            Self::AllTables(keyspace) => format!("{DATA}/{keyspace}/*"),
            Self::Table(keyspace, table) => format!("{DATA}/{keyspace}/{table}"),
            Self::AllRoles => ROLES.to_owned(),
            Self::Role(role) => format!("{ROLES}/{role}"),
        }
    }

    /// Parses the result of [`path`](Self::path); `None` if the text is no path of a resource.
    pub fn from_path(path: &str) -> Option<Self> {
        // Names of keyspaces and tables contain no slash; names of roles may.
        Some(match path.split_once('/') {
            None if path == DATA => Self::AllKeyspaces,
            None if path == ROLES => Self::AllRoles,
            Some((ROLES, role)) => Self::role(role),
            Some((DATA, rest)) => match rest.split_once('/') {
                None => Self::keyspace(rest),
                Some((keyspace, "*")) => Self::AllTables(keyspace.into()),
                Some((keyspace, table)) => Self::table(keyspace, table),
            },
            _ => return None,
        })
    }
}

/// Prints the resource as Cassandra's messages name it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllKeyspaces => f.write_str("<all keyspaces>"),
            Self::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Self::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Self::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Self::AllRoles => f.write_str("<all roles>"),
            Self::Role(role) => write!(f, "<role {role}>"),
        }
    }
}
