//! CREATE, ALTER, DROP, GRANT, REVOKE and LIST of roles.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::{ErrorResponse, Response};
use ebb_cql::syntax::ast::{
    AlterRole, Constant, CreateRole, DatacenterAccess, DropRole, ListRoles, Password,
    RoleMembership, RoleOptions, RoleStatement,
};
use ebb_model::access::{Need, Permission, Resource, Role, RoleError, Roles};
use ebb_model::schema::check_name_length;
use ebb_model::types::CqlType;

use super::passwords;
use super::{AccessContext, identities, of_role};
use crate::error::{Result, invalid, of_catalog, of_schema};
use crate::interrupt;
use crate::listing::Listing;
use crate::outcome::Outcome;
use crate::system::cells::{boolean, map, text};

/// The option of a role that limits the number of snapshots that the role may have.
const SNAPSHOTS_MAX: &str = "snapshots_max";

/// Executes a statement about roles, if the user has the required permissions, and appends the body
/// of the RESULT.
pub(crate) fn execute(
    context: &AccessContext<'_>,
    statement: &RoleStatement,
    out: &mut BytesMut,
) -> Result<Outcome> {
    match statement {
        RoleStatement::Create(create) => self::create(context, create)?,
        RoleStatement::Alter(alter) => self::alter(context, alter)?,
        RoleStatement::Drop(drop) => self::drop(context, drop)?,
        RoleStatement::Grant(grant) => {
            let store = context.schema.catalog.roles();
            change(context, |roles| {
                may_pass_on(context, grant)?;
                let is_super = context.user.is_superuser(store)?;
                let (role, member) = (grant.role.as_str(), grant.member.as_str());
                if store.state().may_be_superuser(role) && !is_super {
                    return unauthorized("Only superusers can grant a role with superuser status");
                }
                Ok(Some(roles.with_member(role, member).map_err(of_role)?))
            })?;
        }
        RoleStatement::Revoke(revoke) => {
            change(context, |roles| {
                may_pass_on(context, revoke)?;
                let (role, member) = (revoke.role.as_str(), revoke.member.as_str());
                Ok(Some(roles.without_member(role, member).map_err(of_role)?))
            })?;
        }
        RoleStatement::List(list) => return self::list(context, list, out),
        RoleStatement::ListUsers => return list_users(context, out),
        RoleStatement::AddIdentity(add) => identities::add(context, add)?,
        RoleStatement::DropIdentity(drop) => identities::drop(context, drop)?,
    }
    Response::Void.encode_body(out);
    Ok(Outcome::default())
}

/// Changes the roles. `next` returns the new roles, or `None` if nothing changes. `next` is called
/// under the lock of the roles, and has to check the user's permissions on the roles that the
/// statement names. A check before the lock is not enough: a role may have been dropped since then,
/// and another role of the same name created.
pub(super) fn change(
    context: &AccessContext<'_>,
    next: impl FnOnce(&Roles) -> Result<Option<Roles>>,
) -> Result<()> {
    let roles = context.schema.catalog.roles();
    roles.change(next).map_err(of_catalog)??;
    Ok(())
}

/// Checks that the user has a permission on a role. The error has Cassandra's message for roles.
pub(super) fn may(context: &AccessContext<'_>, permission: Permission, on: Resource) -> Result<()> {
    let roles = context.schema.catalog.roles();
    if context.user.may(roles, &Need { permission, on })? {
        Ok(())
    } else {
        Err(ErrorResponse::unauthorized(format!(
            "User {} does not have sufficient privileges to perform the requested operation",
            context.user.name().unwrap_or_default()
        )))
    }
}

/// Checks that the user may grant or revoke a role, and that both roles can be read.
fn may_pass_on(context: &AccessContext<'_>, membership: &RoleMembership) -> Result<()> {
    let (role, member) = (membership.role.as_str(), membership.member.as_str());
    may(context, Permission::Authorize, Resource::role(role))?;
    check_readable(context, role)?;
    check_readable(context, member)
}

/// Checks that `name` is not that of an unreadable role. A statement that looked for the role among the
/// readable ones alone would report that the role does not exist.
pub(super) fn check_readable(context: &AccessContext<'_>, name: &str) -> Result<()> {
    let state = context.schema.catalog.roles().state();
    state
        .unreadable(name)
        .map_or(Ok(()), |unreadable| Err(of_schema(unreadable)))
}

pub(super) fn unauthorized<T>(message: impl Into<String>) -> Result<T> {
    Err(ErrorResponse::unauthorized(message))
}

fn create(context: &AccessContext<'_>, create: &CreateRole) -> Result<()> {
    may(context, Permission::Create, Resource::AllRoles)?;
    let is_superuser = create.options.superuser == Some(true);
    if is_superuser && !context.user.is_superuser(context.schema.catalog.roles())? {
        return unauthorized("Only superusers can create a role with superuser status");
    }
    let name = create.name.as_str();
    if name.is_empty() {
        return invalid("Role name can't be an empty string");
    }
    let state = context.schema.catalog.roles().state();
    match state.roles().get(name) {
        Some(_) if create.if_not_exists => return Ok(()),
        Some(_) => return Err(of_role(RoleError::Exists(name.to_owned()))),
        None => check_name_length("Role", name).map_err(of_schema)?,
    }
    let mut role = Role {
        id: rand::random(),
        ..Role::default()
    };
    apply(&create.options)?(&mut role);
    change(context, |roles| {
        may(context, Permission::Create, Resource::AllRoles)?;
        if is_superuser {
            is_still_superuser(context, roles)?;
        }
        let created = roles.with_new(name, role).map_err(of_role)?;
        let Some(creator) = context.user.name() else {
            return Ok(Some(created));
        };
        // The creator gets all permissions on the new role by the same change. Before a later
        // change, another user could drop the role and create one of the same name.
        let on = Resource::role(name);
        let granted = created.with_permissions(creator, &on, on.applicable());
        Ok(Some(granted.map_err(of_role)?.0))
    })
}

/// Changes the options of a role. Permissions are checked first, as in Cassandra, so that a user
/// without them does not learn which roles exist.
fn alter(context: &AccessContext<'_>, alter: &AlterRole) -> Result<()> {
    let name = alter.name.as_str();
    let store = context.schema.catalog.roles();
    let state = store.state();
    let options = &alter.options;
    let is_super = context.user.is_superuser(store)?;
    // Forbidden to superusers, too, as in Cassandra: the last one must not give up the status,
    // because only superusers can grant it.
    if let (Some(_), Some(own)) = (options.superuser, context.user.name())
        && state.roles().of(own, false).contains(name)
    {
        return unauthorized(
            "You aren't allowed to alter your own superuser status or that of a role granted to \
             you",
        );
    }
    if options.superuser.is_some() && !is_super {
        return unauthorized("Only superusers are allowed to alter superuser status");
    }
    may_alter(context, name, options)?;
    if options.is_empty() {
        return invalid("ALTER [ROLE|USER] can't be empty");
    }
    check_readable(context, name)?;
    if state.roles().get(name).is_none() {
        return if alter.if_exists {
            Ok(())
        } else {
            invalid(format!("Role {name} doesn't exist"))
        };
    }
    // A user who changes the password of a superuser could log in as that superuser. Users may change
    // their own password all the same, even if an unreadable role makes their role a possible superuser.
    let is_refused =
        |of_superuser: bool| of_superuser && !is_super && context.user.name() != Some(name);
    let refused = "Only superusers are allowed to alter superusers";
    if is_refused(state.may_be_superuser(name)) {
        return unauthorized(refused);
    }
    let apply = apply(options)?;
    change(context, |roles| {
        if is_super {
            is_still_superuser(context, roles)?;
        }
        may_alter(context, name, options)?;
        // The role may have become a superuser, or a possible one, meanwhile.
        if is_refused(store.state().may_be_superuser(name)) {
            return unauthorized(refused);
        }
        Ok(Some(roles.with_changed(name, apply).map_err(of_role)?))
    })
}

/// Checks that the user may change these options of a role, apart from SUPERUSER.
fn may_alter(context: &AccessContext<'_>, name: &str, options: &RoleOptions) -> Result<()> {
    if context.user.is_superuser(context.schema.catalog.roles())? {
        return Ok(());
    }
    if context.user.name() != Some(name) {
        return may(context, Permission::Alter, Resource::role(name));
    }
    // As in Cassandra, users may change of their own role only the password, even with ALTER on it.
    let others = [
        ("LOGIN", options.login.is_some()),
        ("OPTIONS", options.custom.is_some()),
        ("ACCESS TO DATACENTERS", options.access.is_some()),
    ];
    match others.into_iter().find(|(_, is_said)| *is_said) {
        Some((option, _)) => unauthorized(format!("You aren't allowed to alter {option}")),
        None => Ok(()),
    }
}

/// Checks that the user is still a superuser and may log in. Called while the roles are locked for
/// a change that requires a superuser: otherwise two superusers could remove each other at once,
/// and none would be left.
fn is_still_superuser(context: &AccessContext<'_>, roles: &Roles) -> Result<()> {
    let is_one =
        |own: &str| roles.is_superuser(own) && roles.get(own).is_some_and(|role| role.can_login);
    if context.user.name().is_none_or(is_one) {
        Ok(())
    } else {
        unauthorized("Your role is no longer that of a superuser who may log in")
    }
}

/// Executes DROP ROLE. The permission is checked first, so that a user without it does not learn
/// which roles exist.
fn drop(context: &AccessContext<'_>, drop: &DropRole) -> Result<()> {
    let name = drop.name.as_str();
    may(context, Permission::Drop, Resource::role(name))?;
    let store = context.schema.catalog.roles();
    let is_super = context.user.is_superuser(store)?;
    if store.state().unreadable(name).is_some() {
        // The unreadable role may be a superuser.
        if !is_super {
            return unauthorized("Only superusers can drop a role that cannot be read");
        }
        store.drop_unreadable(name).map_err(of_catalog)?;
        return Ok(());
    }
    change(context, |roles| {
        if is_super {
            is_still_superuser(context, roles)?;
        }
        may(context, Permission::Drop, Resource::role(name))?;
        if store.state().may_be_superuser(name) && !is_super {
            return unauthorized("Only superusers can drop a role with superuser status");
        }
        if roles.get(name).is_none() && drop.if_exists {
            return Ok(None);
        }
        let next = roles.without(name).map_err(of_role)?;
        if context.user.name() == Some(name) {
            invalid("Cannot DROP primary role for current login")
        } else {
            Ok(Some(next))
        }
    })
}

/// Checks the options of CREATE ROLE or ALTER ROLE, and returns the change that they make to a
/// role. The password is hashed here, because hashing takes long and the change is applied under a
/// lock.
fn apply(options: &RoleOptions) -> Result<impl FnOnce(&mut Role)> {
    if let Some(DatacenterAccess::Some(_)) = options.access {
        return invalid("ACCESS TO DATACENTERS is not supported: there is one");
    }
    let hash = match &options.password {
        None => None,
        Some(Password::Plain(text)) => {
            let hash = passwords::hash(text);
            Some(hash.map_err(|error| ErrorResponse::invalid(format!("The password: {error}")))?)
        }
        Some(Password::Hashed(hash)) if passwords::is_hash(hash) => Some(hash.clone()),
        Some(Password::Hashed(_)) => {
            return invalid("Invalid hashed password value. Please use argon2id as a PHC string");
        }
    };
    let custom = options.custom.as_deref().map(snapshots_max).transpose()?;
    let (login, superuser) = (options.login, options.superuser);
    Ok(move |role: &mut Role| {
        if let Some(hash) = hash {
            role.password_hash = Some(hash);
        }
        role.can_login = login.unwrap_or(role.can_login);
        role.is_superuser = superuser.unwrap_or(role.is_superuser);
        role.snapshots_max = custom.unwrap_or(role.snapshots_max);
    })
}

/// Returns the snapshot limit in OPTIONS; `None` if OPTIONS contains no limit.
fn snapshots_max(options: &[(Constant, Constant)]) -> Result<Option<u32>> {
    let mut max = None;
    for (key, value) in options {
        if key.text != SNAPSHOTS_MAX {
            return invalid(format!(
                "Unknown option '{}': there is '{SNAPSHOTS_MAX}'",
                key.text
            ));
        }
        let number = value.text.parse().map_err(|_| {
            ErrorResponse::invalid(format!(
                "Invalid value for option '{SNAPSHOTS_MAX}': {} is no number of snapshots",
                value.text
            ))
        })?;
        max = Some(number);
    }
    Ok(max)
}

/// Returns whether the user may see roles that are not granted to the user.
fn sees_all(context: &AccessContext<'_>) -> Result<bool> {
    let describe = Need {
        permission: Permission::Describe,
        on: Resource::AllRoles,
    };
    context.user.may(context.schema.catalog.roles(), &describe)
}

fn list(context: &AccessContext<'_>, list: &ListRoles, out: &mut BytesMut) -> Result<Outcome> {
    let store = context.schema.catalog.roles();
    let state = store.state();
    let roles = state.roles();
    let of = list.of.as_ref().map(|name| name.as_str());
    if let Some(of) = of {
        check_readable(context, of)?;
        roles.find(of).map_err(of_role)?;
    }
    let sees_all = sees_all(context)?;
    let shown: BTreeSet<&str> = match (of, context.user.name()) {
        (Some(of), Some(own)) if !sees_all && !roles.of(own, false).contains(of) => {
            return unauthorized(format!(
                "You are not authorized to view roles granted to {of} "
            ));
        }
        (Some(of), _) => roles.of(of, list.directly),
        (None, Some(own)) if !sees_all => roles.of(own, list.directly),
        (None, _) => roles.iter().map(|(name, _)| &**name).collect(),
    };
    let mut rows = Vec::new();
    for name in shown {
        interrupt::charge(1)?;
        let Some(role) = roles.get(name) else {
            continue;
        };
        let options = role
            .snapshots_max
            .map(|max| (text(SNAPSHOTS_MAX), text(&max.to_string())));
        rows.push(vec![
            Some(text(name)),
            Some(boolean(role.is_superuser)),
            Some(boolean(role.can_login)),
            Some(map(options)),
            Some(text("ALL")),
        ]);
    }
    let columns = [
        ("role", CqlType::Text),
        ("super", CqlType::Boolean),
        ("login", CqlType::Boolean),
        ("options", parse("map<text, text>")),
        ("datacenters", CqlType::Text),
    ];
    answer(("system_auth", "roles"), &columns, rows, out)
}

fn list_users(context: &AccessContext<'_>, out: &mut BytesMut) -> Result<Outcome> {
    let store = context.schema.catalog.roles();
    let state = store.state();
    let roles = state.roles();
    let shown: BTreeSet<&str> = match context.user.name() {
        Some(own) if !sees_all(context)? => roles.of(own, false),
        _ => roles.iter().map(|(name, _)| &**name).collect(),
    };
    let mut rows = Vec::new();
    for name in shown {
        interrupt::charge(1)?;
        if let Some(role) = roles.get(name).filter(|role| role.can_login) {
            let is_superuser = boolean(role.is_superuser);
            rows.push(vec![
                Some(text(name)),
                Some(is_superuser),
                Some(text("ALL")),
            ]);
        }
    }
    let columns = [
        ("name", CqlType::Text),
        ("super", CqlType::Boolean),
        ("datacenters", CqlType::Text),
    ];
    answer(("system_auth", "users"), &columns, rows, out)
}

/// Appends the body of a RESULT with these rows. Without rows the RESULT is void, as in Cassandra.
pub(super) fn answer(
    table: (&str, &str),
    columns: &[(&str, CqlType)],
    rows: Vec<Vec<Option<Bytes>>>,
    out: &mut BytesMut,
) -> Result<Outcome> {
    if rows.is_empty() {
        Response::Void.encode_body(out)
    } else {
        Listing::new(table, columns, rows).write(out)
    }
    Ok(Outcome::default())
}

/// Parses the name of a type that contains no user-defined type.
fn parse(ty: &str) -> CqlType {
    CqlType::parse(ty, &|_| None).expect("a type")
}
