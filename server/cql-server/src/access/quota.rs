//! How many snapshots a role may hold: each pins what it shows.

use ebb_catalog::access::{OwnedSnapshot, Role};
use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::{CreateSnapshot, SnapshotScope as Scope};
use ebb_storage::Db;

use super::AccessContext;
use super::of_role;
use crate::context::in_keyspace;
use crate::error::{Result, of_catalog};

/// That the user may hold one more snapshot.
///
/// # Errors
/// Where they hold as many as they may.
pub fn check_quota(context: &AccessContext<'_>) -> Result<()> {
    let Some(user) = context.user.name() else {
        return Ok(());
    };
    let catalog = context.schema.catalog;
    let state = catalog.roles().state();
    let Some(role) = state.roles().get(user) else {
        return Ok(());
    };
    let Some(max) = role.snapshots_max else {
        return Ok(());
    };
    match held(catalog.db(), role).count() < max as usize {
        true => Ok(()),
        false => Err(ErrorResponse::unauthorized(format!(
            "User {user} holds {max} snapshots already, as many as it may; drop one of them"
        ))),
    }
}

/// Notes that the user has created a snapshot.
///
/// # Errors
/// As the store.
pub fn note_snapshot(context: &AccessContext<'_>, create: &CreateSnapshot) -> Result<()> {
    let Some(user) = context.user.name() else {
        return Ok(());
    };
    let keyspace = match &create.on {
        Scope::Keyspace(keyspace) => keyspace.as_str(),
        Scope::Table(table) => in_keyspace(table, context.schema.keyspace)?,
    };
    let catalog = context.schema.catalog;
    let name = create.name.as_str();
    let Some(seq) = seq(catalog.db(), keyspace, name) else {
        // Expired already.
        return Ok(());
    };
    let noted = catalog.roles().change(|roles| {
        let mut snapshots: Vec<_> = match roles.get(user) {
            Some(role) => held(catalog.db(), role).cloned().collect(),
            // Dropped meanwhile.
            None => return Ok(None),
        };
        snapshots.push(OwnedSnapshot {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            seq,
        });
        let next = roles.with_changed(user, |role| role.snapshots = snapshots);
        next.map(Some).map_err(of_role)
    });
    noted.map_err(of_catalog)??;
    Ok(())
}

/// Of the snapshots that a role created, those that are there.
fn held<'r>(db: &'r Db, role: &'r Role) -> impl Iterator<Item = &'r OwnedSnapshot> {
    let is_there = |own: &&OwnedSnapshot| seq(db, &own.keyspace, &own.name) == Some(own.seq);
    role.snapshots.iter().filter(is_there)
}

fn seq(db: &Db, keyspace: &str, snapshot: &str) -> Option<u64> {
    let of = db.existing_keyspace(keyspace).ok()?;
    Some(of.snapshot(snapshot).ok()?.seq().0)
}
