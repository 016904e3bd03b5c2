//! Syntax trees of CREATE, ALTER, DROP, GRANT, REVOKE, LIST of roles; ADD and DROP of their
//! identities.
//!
//! A user is a role that may log in: statements with USER parse as those with ROLE.

use std::fmt;

use super::{Constant, Name};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleStatement {
    Create(CreateRole),
    Alter(AlterRole),
    Drop(DropRole),
    /// `GRANT role TO role`.
    Grant(RoleMembership),
    /// `REVOKE role FROM role`.
    Revoke(RoleMembership),
    List(ListRoles),
    ListUsers,
    AddIdentity(AddIdentity),
    DropIdentity(DropIdentity),
}

/// `ADD IDENTITY [IF NOT EXISTS] 'i' TO ROLE r`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddIdentity {
    /// The identity, as certificates contain it.
    pub identity: String,
    pub if_not_exists: bool,
    /// The role that a client with such a certificate logs in as.
    pub role: Name,
}

/// `DROP IDENTITY [IF EXISTS] 'i'`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIdentity {
    /// The identity, as certificates contain it.
    pub identity: String,
    pub if_exists: bool,
}

/// `CREATE ROLE [IF NOT EXISTS] r [WITH ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRole {
    /// The role; an empty name is an error of the statement but not of its syntax.
    pub name: Name,
    pub if_not_exists: bool,
    pub options: RoleOptions,
}

/// `ALTER ROLE [IF EXISTS] r [WITH ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterRole {
    pub name: Name,
    pub if_exists: bool,
    pub options: RoleOptions,
}

/// `DROP ROLE [IF EXISTS] r`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropRole {
    pub name: Name,
    pub if_exists: bool,
}

/// `role TO member`, `role FROM member`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleMembership {
    /// The role whose permissions are granted or revoked.
    pub role: Name,
    /// The role that gets or loses the permissions of `role`.
    pub member: Name,
}

/// `LIST ROLES [OF r] [NORECURSIVE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRoles {
    /// Lists only this role and the roles granted to it.
    pub of: Option<Name>,
    /// `NORECURSIVE`: leaves out roles that were granted indirectly.
    pub directly: bool,
}

/// The options of a role in WITH; no repeated options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleOptions {
    /// `PASSWORD = '...'` or `HASHED PASSWORD = '...'`.
    pub password: Option<Password>,
    pub superuser: Option<bool>,
    pub login: Option<bool>,
    /// `OPTIONS = {...}`, as written; no key twice.
    pub custom: Option<Vec<(Constant, Constant)>>,
    pub access: Option<DatacenterAccess>,
}

/// The password of a role. [`fmt::Debug`] does not print it.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    Plain(String),
    /// `HASHED PASSWORD = '...'`: the statement contains only the hash.
    Hashed(String),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain(..)",
            Self::Hashed(_) => "Hashed(..)",
        })
    }
}

/// The datacenters from which a role may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatacenterAccess {
    All,
    /// `TO DATACENTERS {'dc1'}`, at least one datacenter.
    Some(Vec<String>),
}

impl RoleOptions {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
