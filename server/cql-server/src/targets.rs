//! What a name of a table means: a table as it is now, as it was at a snapshot, or one that
//! is computed.

use std::sync::Arc;

use ebb_cql::protocol::ErrorResponse;
use ebb_storage::Db;
use ebb_tables::{CatalogState, CqlTable};

use super::error::of_schema;
use super::snapshots::{self, SnapshotTarget, names_snapshot, no_keyspace, no_table};
use super::system::{SystemTables, VirtualTable};

#[derive(Debug, Clone)]
pub enum Target {
    Live(Arc<CqlTable>),
    /// A table as it was when a snapshot was created.
    Snapshot(Box<SnapshotTarget>),
    Virtual(Arc<VirtualTable>),
}

/// What a SELECT from `keyspace.table` reads; `snapshot` is what USING SNAPSHOT says.
///
/// # Errors
/// Where there is no such keyspace, table or snapshot, in Cassandra's words.
pub fn readable(
    db: &Db,
    state: &CatalogState,
    system: &SystemTables,
    (keyspace, table): (&str, &str),
    snapshot: Option<&str>,
) -> Result<Target, ErrorResponse> {
    if let Some(snapshot) = snapshot {
        return match state.schema().keyspace(keyspace) {
            Some(_) => snapshots::open(db, (keyspace, snapshot), table),
            None => Err(no_keyspace(state, keyspace)),
        }
        .map(|target| Target::Snapshot(Box::new(target)));
    }
    if let Some(table) = state.table(keyspace, table) {
        return Ok(Target::Live(table.clone()));
    }
    if let Some(table) = system.table(keyspace, table) {
        return Ok(Target::Virtual(table.clone()));
    }
    if let Some(unreadable) = state.schema().unreadable(keyspace, Some(table)) {
        return Err(of_schema(unreadable));
    }
    if state.schema().keyspace(keyspace).is_some() || system.has_keyspace(keyspace) {
        return Err(no_table(table));
    }
    match snapshots::find(db, state, keyspace)? {
        Some(name) => {
            let target = snapshots::open(db, (&name.keyspace, &name.snapshot), table)?;
            Ok(Target::Snapshot(Box::new(target)))
        }
        None => Err(no_keyspace(state, keyspace)),
    }
}

/// The table that a statement writes to.
///
/// # Errors
/// Where there is none, and for those that nobody can write to: snapshots and the system's.
pub fn writable(
    state: &CatalogState,
    system: &SystemTables,
    (keyspace, table): (&str, &str),
) -> Result<Arc<CqlTable>, ErrorResponse> {
    if let Some(table) = state.table(keyspace, table) {
        return Ok(table.clone());
    }
    if system.table(keyspace, table).is_some() {
        return Err(ErrorResponse::invalid(format!(
            "Modification is not supported by table {keyspace}.{table}"
        )));
    }
    if let Some(unreadable) = state.schema().unreadable(keyspace, Some(table)) {
        return Err(of_schema(unreadable));
    }
    if names_snapshot(state, keyspace) {
        return Err(ErrorResponse::invalid(format!(
            "Cannot write to {keyspace}.{table}: a snapshot never changes; write to the keyspace \
             itself"
        )));
    }
    match state.schema().keyspace(keyspace).is_some() || system.has_keyspace(keyspace) {
        true => Err(no_table(table)),
        false => Err(no_keyspace(state, keyspace)),
    }
}
