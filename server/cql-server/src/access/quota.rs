//! The quota of snapshots of a session's user.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::{CreateSnapshot, SnapshotScope as Scope};
use ebb_tables::SnapshotRoom;

use super::AccessContext;
use crate::context::in_keyspace;
use crate::error::{Result, of_catalog};

/// Checks that the user may create one more snapshot, and reserves it within the quota. Returns
/// `None` for users without a role, who have no quota.
///
/// # Errors
/// If the user has as many snapshots as the quota allows.
pub fn room_for_snapshot<'a>(context: &AccessContext<'a>) -> Result<Option<SnapshotRoom<'a>>> {
    let Some(user) = context.user.name() else {
        return Ok(None);
    };
    let room = context.schema.catalog.roles().room_for_snapshot(user);
    room.map(Some)
        .map_err(|full| ErrorResponse::unauthorized(full.to_string()))
}

pub fn note_snapshot(
    context: &AccessContext<'_>,
    room: SnapshotRoom<'_>,
    create: &CreateSnapshot,
) -> Result<()> {
    let keyspace = match &create.on {
        Scope::Keyspace(keyspace) => keyspace.as_str(),
        Scope::Table(table) => in_keyspace(table, context.schema.keyspace)?,
    };
    let noted = room.note(keyspace, create.name.as_str());
    noted.map_err(of_catalog)
}
