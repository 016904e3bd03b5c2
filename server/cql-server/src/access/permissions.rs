//! GRANT, REVOKE and LIST of permissions.

use bytes::BytesMut;
use ebb_cql::protocol::{ErrorResponse, Response};
use ebb_cql::syntax::ast::{
    ListPermissions, PermissionGrant, PermissionStatement, Permissions, Resource as Named,
};
use ebb_model::access::{Need, Permission, PermissionSet, Resource, RoleError};
use ebb_model::types::CqlType;

use super::roles::{answer, check_readable};
use super::{AccessContext, of_role};
use crate::context::in_keyspace;
use crate::error::{Result, invalid, of_catalog};
use crate::interrupt;
use crate::outcome::Outcome;
use crate::system::cells::text;

/// Executes a statement about permissions, if the user has the required ones, and appends the body
/// of the RESULT.
pub(crate) fn execute(
    context: &AccessContext<'_>,
    statement: &PermissionStatement,
    out: &mut BytesMut,
) -> Result<Outcome> {
    let warnings = match statement {
        PermissionStatement::Grant(grant) => self::grant(context, grant, true)?,
        PermissionStatement::Revoke(revoke) => self::grant(context, revoke, false)?,
        PermissionStatement::List(list) => return self::list(context, list, out),
    };
    Response::Void.encode_body(out);
    Ok(Outcome {
        warnings,
        ..Outcome::default()
    })
}

/// Grants permissions, or revokes them if `grants` is false. Returns warnings about permissions
/// that the role had already or, for a revocation, did not have.
fn grant(
    context: &AccessContext<'_>,
    grant: &PermissionGrant,
    grants: bool,
) -> Result<Vec<String>> {
    let on = resource(context, &grant.on)?;
    let asked = permissions(&grant.permissions, &on)?;
    let needs = std::iter::once(Permission::Authorize).chain(asked.iter());
    let need = |permission| Need {
        permission,
        on: on.clone(),
    };
    let needs: Vec<Need> = needs.map(need).collect();
    let store = context.schema.catalog.roles();
    let role = grant.role.as_str();
    let mut done = PermissionSet::NONE;
    let changed = store.change(|roles| {
        // Checked under the lock of the roles. The permissions on a dropped object are removed
        // under this lock before another object gets its name, so they do not count for the other
        // object.
        context.user.check(store, &needs)?;
        check_readable(context, role)?;
        let Some(held) = roles.get(role) else {
            return invalid(format!("Role {role} doesn't exist"));
        };
        // A permission stays while the record of its keyspace cannot be read. It can be revoked meanwhile.
        let is_revocable = !grants && held.permissions.contains_key(&on);
        if !is_revocable && !exists(context, roles, &on) {
            return invalid(format!("Resource {on} doesn't exist"));
        }
        let next = if grants {
            roles.with_permissions(role, &on, asked)
        } else {
            roles.without_permissions(role, &on, asked)
        };
        let (next, new) = next.map_err(of_role)?;
        done = new;
        Ok(Some(next))
    });
    changed.map_err(of_catalog)??;
    let not_done = asked.without(done);
    if not_done.is_empty() || grant.permissions == Permissions::All {
        return Ok(Vec::new());
    }
    let mut words: Vec<_> = not_done.iter().map(Permission::word).collect();
    words.sort_unstable();
    let was = if grants { "already" } else { "not" };
    let words = words.join(", ");
    Ok(vec![format!(
        "Role '{role}' was {was} granted {words} on {on}"
    )])
}

/// Resolves the resource that a statement names, whether or not it exists.
fn resource(context: &AccessContext<'_>, named: &Named) -> Result<Resource> {
    Ok(match named {
        Named::AllKeyspaces => Resource::AllKeyspaces,
        Named::Keyspace(keyspace) => Resource::keyspace(keyspace.as_str()),
        Named::AllTables(keyspace) => Resource::AllTables(keyspace.as_str().into()),
        Named::Table(table) => {
            let keyspace = in_keyspace(table, context.schema.keyspace)?;
            Resource::table(keyspace, table.name.as_str())
        }
        Named::AllRoles => Resource::AllRoles,
        Named::Role(role) => Resource::role(role.as_str()),
    })
}

/// Returns whether a resource exists, readable or not.
fn exists(
    context: &AccessContext<'_>,
    roles: &ebb_model::access::Roles,
    resource: &Resource,
) -> bool {
    let system = context.schema.system;
    let state = context.schema.catalog.state();
    match resource {
        Resource::AllKeyspaces | Resource::AllRoles => true,
        Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) => {
            state.schema().has_keyspace(keyspace) || system.has_keyspace(keyspace)
        }
        Resource::Table(keyspace, table) => {
            state.schema().has_table(keyspace, table) || system.table(keyspace, table).is_some()
        }
        Resource::Role(role) => {
            let unreadable = context.schema.catalog.roles().state().unreadable(role);
            roles.get(role).is_some() || unreadable.is_some()
        }
    }
}

/// Returns the named permissions that can be granted on a resource. Other permissions are ignored,
/// but it is an error if none can be granted.
fn permissions(named: &Permissions, on: &Resource) -> Result<PermissionSet> {
    let some = match named {
        Permissions::All => return Ok(on.applicable()),
        Permissions::Some(some) => some.iter().copied().collect::<PermissionSet>(),
    };
    let applicable = some.intersection(on.applicable());
    if applicable.is_empty() {
        Err(ErrorResponse::syntax(format!(
            "Resource type {} does not support any of the requested permissions",
            on.class()
        )))
    } else {
        Ok(applicable)
    }
}

/// Lists the permissions of one role and of the roles granted to that role, or of all roles. They
/// are the permissions on one resource and (without NORECURSIVE) on the resources that contain it,
/// or on all resources.
fn list(
    context: &AccessContext<'_>,
    list: &ListPermissions,
    out: &mut BytesMut,
) -> Result<Outcome> {
    let store = context.schema.catalog.roles();
    let state = store.state();
    let roles = state.roles();
    // As in Cassandra, the names are checked before the user's right to see the permissions.
    let on = list
        .on
        .as_ref()
        .map(|on| resource(context, on))
        .transpose()?;
    if let Some(on) = on.as_ref().filter(|on| !exists(context, roles, on)) {
        return invalid(format!("{on} doesn't exist"));
    }
    let of = list.of.as_ref().map(|name| name.as_str());
    if let Some(of) = of {
        check_readable(context, of)?;
        if roles.get(of).is_none() {
            return Err(of_role(RoleError::NotThere(Resource::role(of).to_string())));
        }
    }
    let own = context.user.name();
    // A user may list the permissions of the own role and of the roles granted to it, which the user
    // has, too. Without OF all roles are listed, for superusers only.
    let is_own = |of| own.is_some_and(|own| roles.of(own, false).contains(of));
    if !context.user.is_superuser(store)? && !of.is_some_and(is_own) {
        let whose = of.unwrap_or("everyone");
        return Err(ErrorResponse::unauthorized(format!(
            "You are not authorized to view {whose}'s permissions"
        )));
    }
    let asked = match &list.permissions {
        Permissions::All => PermissionSet::ALL,
        Permissions::Some(some) => some.iter().copied().collect(),
    };
    let is_shown = |resource: &Resource| match &on {
        None => true,
        Some(on) if list.directly => resource == on,
        // A permission on a resource that contains this one holds for this one, too.
        Some(on) => on.chain().any(|above| above == *resource),
    };
    let shown = match of {
        Some(of) => roles.of(of, false),
        None => roles.iter().map(|(name, _)| &**name).collect(),
    };
    let mut rows = Vec::new();
    for name in shown {
        let held = roles.get(name).map(|role| &role.permissions);
        for (resource, set) in held.into_iter().flatten().filter(|(on, _)| is_shown(on)) {
            interrupt::charge(1)?;
            for permission in set.intersection(asked).iter() {
                // Cassandra, too, has the role a second time, as `username`.
                let cells = [name, name, &resource.to_string(), permission.word()];
                rows.push(cells.map(|cell| Some(text(cell))).to_vec());
            }
        }
    }
    let columns = ["role", "username", "resource", "permission"].map(|name| (name, CqlType::Text));
    answer(("system_auth", "permissions"), &columns, rows, out)
}
