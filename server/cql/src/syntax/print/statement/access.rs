//! Printing of statements about roles and permissions.

use std::fmt::{Display, Formatter, Result};

use super::{if_exists, if_not_exists};
use crate::syntax::ast::{
    DatacenterAccess, Name, Password, PermissionGrant, PermissionStatement, Permissions, Resource,
    RoleOptions, RoleStatement,
};
use crate::syntax::print::term::string;
use crate::syntax::print::{Pairs, comma};

/// Prints the name of a role. An empty name is printed as `''`, because it cannot be in double quotes.
struct Role<'a>(&'a Name);

impl Display for Role<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.as_str() {
            "" => f.write_str("''"),
            _ => self.0.fmt(f),
        }
    }
}

impl Display for RoleStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Create(create) => write!(
                f,
                "CREATE ROLE {}{}{}",
                if_not_exists(create.if_not_exists),
                Role(&create.name),
                create.options
            ),
            Self::Alter(alter) => write!(
                f,
                "ALTER ROLE {}{}{}",
                if_exists(alter.if_exists),
                Role(&alter.name),
                alter.options
            ),
            Self::Drop(drop) => {
                let exists = if_exists(drop.if_exists);
                write!(f, "DROP ROLE {exists}{}", Role(&drop.name))
            }
            Self::Grant(grant) => {
                write!(f, "GRANT {} TO {}", Role(&grant.role), Role(&grant.member))
            }
            Self::Revoke(revoke) => {
                let (role, member) = (Role(&revoke.role), Role(&revoke.member));
                write!(f, "REVOKE {role} FROM {member}")
            }
            Self::List(list) => {
                f.write_str("LIST ROLES")?;
                of(f, &list.of, list.directly)
            }
            Self::ListUsers => f.write_str("LIST USERS"),
            Self::AddIdentity(add) => write!(
                f,
                "ADD IDENTITY {}{} TO ROLE {}",
                if_not_exists(add.if_not_exists),
                string(&add.identity),
                Role(&add.role)
            ),
            Self::DropIdentity(drop) => {
                let exists = if_exists(drop.if_exists);
                write!(f, "DROP IDENTITY {exists}{}", string(&drop.identity))
            }
        }
    }
}

fn of(f: &mut Formatter<'_>, of: &Option<Name>, directly: bool) -> Result {
    if let Some(role) = of {
        write!(f, " OF {}", Role(role))?;
    }
    f.write_str(if directly { " NORECURSIVE" } else { "" })
}

/// Prints the options after WITH, or nothing without options.
impl Display for RoleOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let password = self.password.as_ref().map(|password| match password {
            Password::Plain(text) => format!("PASSWORD = {}", string(text)),
            Password::Hashed(text) => format!("HASHED PASSWORD = {}", string(text)),
        });
        let access = self.access.as_ref().map(|access| match access {
            DatacenterAccess::All => "ACCESS TO ALL DATACENTERS".to_owned(),
            DatacenterAccess::Some(names) => {
                let names: Vec<String> = names.iter().map(|name| string(name)).collect();
                format!("ACCESS TO DATACENTERS {{{}}}", comma(&names))
            }
        });
        let all = [
            password,
            self.superuser.map(|flag| format!("SUPERUSER = {flag}")),
            self.login.map(|flag| format!("LOGIN = {flag}")),
            (self.custom.as_ref()).map(|map| format!("OPTIONS = {{{}}}", Pairs(map))),
            access,
        ];
        for (at, option) in all.into_iter().flatten().enumerate() {
            let before = if at == 0 { "WITH" } else { "AND" };
            write!(f, " {before} {option}")?;
        }
        Ok(())
    }
}

impl Display for PermissionStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let grant = |f: &mut Formatter<'_>, grant: &PermissionGrant, (verb, before)| {
            let (permissions, on) = (&grant.permissions, &grant.on);
            let role = Role(&grant.role);
            write!(f, "{verb} {permissions} ON {on} {before} {role}")
        };
        match self {
            Self::Grant(granted) => grant(f, granted, ("GRANT", "TO")),
            Self::Revoke(revoked) => grant(f, revoked, ("REVOKE", "FROM")),
            Self::List(list) => {
                write!(f, "LIST {}", list.permissions)?;
                if let Some(on) = &list.on {
                    write!(f, " ON {on}")?;
                }
                of(f, &list.of, list.directly)
            }
        }
    }
}

impl Display for Permissions {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::All => f.write_str("ALL PERMISSIONS"),
            Self::Some(some) => comma(some).fmt(f),
        }
    }
}

/// Prints the resource as in statements.
impl Display for Resource {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::AllKeyspaces => f.write_str("ALL KEYSPACES"),
            Self::Keyspace(keyspace) => write!(f, "KEYSPACE {keyspace}"),
            Self::AllTables(keyspace) => write!(f, "ALL TABLES IN KEYSPACE {keyspace}"),
            Self::Table(table) => write!(f, "TABLE {table}"),
            Self::AllRoles => f.write_str("ALL ROLES"),
            Self::Role(role) => write!(f, "ROLE {}", Role(role)),
        }
    }
}
