//! The resolution of table names: a live table, a table at a snapshot, or a virtual one.

use std::sync::Arc;

use ebb_storage::Db;
use ebb_tables::{CatalogState, CqlTable};

use super::error::{Result, invalid, of_schema};
use super::snapshots::{self, SnapshotTarget, names_snapshot, no_keyspace, no_table};
use super::system::{SystemTables, VirtualTable};

#[derive(Debug, Clone)]
pub enum Target {
    Live(Arc<CqlTable>),
    /// A table at the moment of a snapshot.
    Snapshot(Box<SnapshotTarget>),
    Virtual(Arc<VirtualTable>),
}

/// Resolves the table of a SELECT from `keyspace.table`; `snapshot` is the name in USING SNAPSHOT.
///
/// # Errors
/// If there is no such keyspace, table or snapshot (Cassandra's error), or if its record is
/// unreadable.
pub fn readable(
    db: &Db,
    state: &CatalogState,
    system: &SystemTables,
    (keyspace, table): (&str, &str),
    snapshot: Option<&str>,
) -> Result<Target> {
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
    if is_keyspace(state, system, keyspace) {
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

/// Returns whether a SELECT from `keyspace` reads a table at a snapshot: the one in USING SNAPSHOT
/// (`snapshot`), or the one that the name of the keyspace stands for. Does not open the snapshot,
/// which may not exist.
pub fn is_at_snapshot(
    state: &CatalogState,
    system: &SystemTables,
    keyspace: &str,
    snapshot: Option<&str>,
) -> bool {
    snapshot.is_some() || (!is_keyspace(state, system, keyspace) && names_snapshot(state, keyspace))
}

/// Returns whether a name is that of a keyspace of users or of the system.
fn is_keyspace(state: &CatalogState, system: &SystemTables, name: &str) -> bool {
    state.schema().keyspace(name).is_some() || system.has_keyspace(name)
}

/// Resolves the table that a statement writes to.
///
/// # Errors
/// If there is no such table, if its record is unreadable, or if the table is read-only: a table at
/// a snapshot or of the system.
pub fn writable(
    state: &CatalogState,
    system: &SystemTables,
    (keyspace, table): (&str, &str),
) -> Result<Arc<CqlTable>> {
    if let Some(table) = state.table(keyspace, table) {
        return Ok(table.clone());
    }
    if system.table(keyspace, table).is_some() {
        return invalid(format!(
            "Modification is not supported by table {keyspace}.{table}"
        ));
    }
    if let Some(unreadable) = state.schema().unreadable(keyspace, Some(table)) {
        return Err(of_schema(unreadable));
    }
    if names_snapshot(state, keyspace) {
        return invalid(format!(
            "Cannot write to {keyspace}.{table}: a snapshot never changes; write to the keyspace \
             itself"
        ));
    }
    if is_keyspace(state, system, keyspace) {
        Err(no_table(table))
    } else {
        Err(no_keyspace(state, keyspace))
    }
}
