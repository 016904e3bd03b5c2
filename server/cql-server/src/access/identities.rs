//! ADD IDENTITY and DROP IDENTITY, which map the identity in a client certificate to a role.

use ebb_cql::syntax::ast::{AddIdentity, DropIdentity};
use ebb_model::access::{Permission, Resource};
use ebb_model::schema::check_name_length;

use super::roles::{change, check_readable, may, unauthorized};
use super::{AccessContext, of_role};
use crate::error::{Result, invalid, of_schema};

/// Executes ADD IDENTITY. It requires CREATE on all roles, as in Cassandra, and ALTER on the role:
/// like a new password, the identity lets its owner log in as the role.
pub(super) fn add(context: &AccessContext<'_>, add: &AddIdentity) -> Result<()> {
    may(context, Permission::Create, Resource::AllRoles)?;
    let (identity, role) = (add.identity.as_str(), add.role.as_str());
    if identity.is_empty() {
        return invalid("Identity can't be an empty string");
    }
    let store = context.schema.catalog.roles();
    check_readable(context, role)?;
    if store.state().roles().get(role).is_none() {
        return invalid(format!(
            "Can not add identity for non-existent role '{role}'"
        ));
    }
    may(context, Permission::Alter, Resource::role(role))?;
    let is_super = context.user.is_superuser(store)?;
    change(context, |roles| {
        may(context, Permission::Alter, Resource::role(role))?;
        if roles.is_superuser(role) && !is_super {
            return unauthorized(
                "Only superusers can add an identity to a role with superuser status",
            );
        }
        if add.if_not_exists && roles.of_identity(identity).is_some() {
            return Ok(None);
        }
        check_name_length("Identity", identity).map_err(of_schema)?;
        Ok(Some(roles.with_identity(identity, role).map_err(of_role)?))
    })
}

/// Executes DROP IDENTITY. It requires DROP on the role that has the identity or, if no role has
/// it, DROP on all roles.
pub(super) fn drop(context: &AccessContext<'_>, drop: &DropIdentity) -> Result<()> {
    let identity = drop.identity.as_str();
    let store = context.schema.catalog.roles();
    let state = store.state();
    let owner = state.roles().of_identity(identity);
    let owner = owner.map(|(name, _)| name.clone());
    let on = match &owner {
        Some(role) => Resource::role(role),
        None => Resource::AllRoles,
    };
    may(context, Permission::Drop, on.clone())?;
    let is_super = context.user.is_superuser(store)?;
    change(context, |roles| {
        may(context, Permission::Drop, on)?;
        let now = roles.of_identity(identity).map(|(name, _)| name.clone());
        match &now {
            // Another session may have dropped the identity after the permissions were checked.
            None if drop.if_exists => return Ok(None),
            Some(role) if owner.as_ref() != Some(role) => {
                return unauthorized(format!("{identity} is another role's now"));
            }
            Some(role) if store.state().may_be_superuser(role) && !is_super => {
                return unauthorized(
                    "Only superusers can drop an identity of a role with superuser status",
                );
            }
            _ => {}
        }
        Ok(Some(roles.without_identity(identity).map_err(of_role)?))
    })
}
