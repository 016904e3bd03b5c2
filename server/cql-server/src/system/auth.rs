//! `system_auth`: the roles, without their password hashes.

use super::cells::{boolean, list, text};
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::Result;

const KEYSPACE: &str = "system_auth";

pub(super) const ROLES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "roles",
    comment: "role definitions",
    columns: &[
        "role text",
        "can_login boolean",
        "is_superuser boolean",
        "member_of set<text>",
        "salted_hash text",
    ],
    primary_key: &["role"],
    rows: roles,
};

fn roles(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let state = facts.catalog.roles().state();
    state.roles().iter().try_for_each(|(name, role)| {
        let mut cells = vec![
            ("role", text(name)),
            ("can_login", boolean(role.can_login)),
            ("is_superuser", boolean(role.is_superuser)),
        ];
        if !role.member_of.is_empty() {
            let member_of = role.member_of.iter().map(|role| text(role));
            cells.push(("member_of", list(member_of)));
        }
        rows.push(cells)
    })
}

pub(super) const ROLE_MEMBERS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "role_members",
    comment: "role memberships lookup table",
    columns: &["role text", "member text"],
    primary_key: &["role", "member"],
    rows: role_members,
};

fn role_members(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let state = facts.catalog.roles().state();
    for (name, role) in state.roles().iter() {
        for of in &role.member_of {
            rows.push([("role", text(of)), ("member", text(name))])?;
        }
    }
    Ok(())
}

pub(super) const ROLE_PERMISSIONS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "role_permissions",
    comment: "permissions granted to db roles",
    columns: &["role text", "resource text", "permissions set<text>"],
    primary_key: &["role", "resource"],
    rows: role_permissions,
};

fn role_permissions(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let state = facts.catalog.roles().state();
    for (name, role) in state.roles().iter() {
        for (resource, set) in &role.permissions {
            let mut words: Vec<_> = set.iter().map(|permission| permission.word()).collect();
            words.sort_unstable();
            rows.push([
                ("role", text(name)),
                ("resource", text(&resource.path())),
                ("permissions", list(words.into_iter().map(text))),
            ])?;
        }
    }
    Ok(())
}

pub(super) const IDENTITY_TO_ROLE: Definition = Definition {
    keyspace: KEYSPACE,
    name: "identity_to_role",
    comment: "mtls authorized identities lookup table",
    columns: &["identity text", "role text"],
    primary_key: &["identity"],
    rows: identity_to_role,
};

fn identity_to_role(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let state = facts.catalog.roles().state();
    for (name, role) in state.roles().iter() {
        for identity in &role.identities {
            rows.push([("identity", text(identity)), ("role", text(name))])?;
        }
    }
    Ok(())
}
