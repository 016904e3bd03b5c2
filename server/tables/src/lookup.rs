//! Look-up of objects in a database by name, with errors that list the existing names.

use ebb_storage::{Db, Error, ErrorKind, Keyspace, Result, Snapshot, SnapshotTable, Table};

use crate::names::TableName;

/// The error for a missing keyspace, table, snapshot or job. Its text lists existing objects of the same
/// kind, ten at most.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} named {name:?} in {place}; {}", list(.what, .known))]
pub struct Unknown {
    /// The kind of the missing object: "keyspace", "table", "snapshot" or "job".
    pub what: &'static str,
    pub name: String,
    /// The keyspace or database that was searched.
    pub place: String,
    /// The names of all existing objects of this kind in `place`.
    pub known: Vec<String>,
}

/// The most names in the text of an error: a longer line does not help the user.
const NAMES_MAX: usize = 10;

fn list(what: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!("there are no {what}s yet");
    }
    let shown = known.iter().take(NAMES_MAX).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match known.len().saturating_sub(NAMES_MAX) {
        0 => format!("there are: {shown}"),
        more => format!("there are: {shown} and {more} more"),
    }
}

/// The error of a look-up.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The object does not exist.
    #[error("{0}")]
    Unknown(#[source] Unknown),
    /// The store failed.
    #[error("{0}")]
    Store(#[source] Error),
}

/// Returns the keyspace of this name.
///
/// # Errors
/// If there is none.
pub fn keyspace(db: &Db, name: &str) -> Result<Keyspace, LookupError> {
    or_known(db.existing_keyspace(name), || Unknown {
        what: "keyspace",
        name: name.to_string(),
        place: "the database".to_string(),
        known: db.keyspaces(),
    })
}

/// Returns the table of this name, in its current state.
///
/// # Errors
/// If there is none.
pub fn table(db: &Db, name: &TableName) -> Result<Table, LookupError> {
    let keyspace = keyspace(db, &name.keyspace)?;
    or_known(keyspace.existing_table(&name.table), || {
        unknown_table(&keyspace, &name.table)
    })
}

/// Returns the number of the table that has this name now; `None` if there is none.
pub fn table_number(db: &Db, name: &TableName) -> Option<u32> {
    let keyspace = db.existing_keyspace(&name.keyspace).ok()?;
    let table = keyspace.existing_table(&name.table).ok()?;
    Some(table.number())
}

/// Returns the table of this name as of a snapshot.
///
/// # Errors
/// If there is no such table or snapshot.
pub fn snapshot_table(
    db: &Db,
    name: &TableName,
    snapshot: &str,
) -> Result<SnapshotTable, LookupError> {
    let keyspace = keyspace(db, &name.keyspace)?;
    table_in(&open_snapshot(&keyspace, snapshot)?, name)
}

/// Opens the snapshot of this name.
///
/// # Errors
/// If there is none.
pub fn open_snapshot(keyspace: &Keyspace, name: &str) -> Result<Snapshot, LookupError> {
    or_known(keyspace.snapshot(name), || unknown_snapshot(keyspace, name))
}

/// Returns the table of this name in an open snapshot of its keyspace.
///
/// # Errors
/// If there is none.
pub fn table_in(snapshot: &Snapshot, name: &TableName) -> Result<SnapshotTable, LookupError> {
    or_known(snapshot.table(&name.table), || Unknown {
        what: "table",
        name: name.table.clone(),
        place: format!("snapshot {} of {}", snapshot.name(), name.keyspace),
        known: snapshot.tables().map(str::to_string).collect(),
    })
}

/// Returns the error for a missing table of a keyspace.
pub fn unknown_table(keyspace: &Keyspace, table: &str) -> Unknown {
    Unknown {
        what: "table",
        name: table.to_string(),
        place: format!("keyspace {}", keyspace.name()),
        known: keyspace.tables(),
    }
}

/// Returns the error for a missing snapshot of a keyspace.
pub fn unknown_snapshot(keyspace: &Keyspace, snapshot: &str) -> Unknown {
    Unknown {
        what: "snapshot",
        name: snapshot.to_string(),
        place: format!("keyspace {}", keyspace.name()),
        known: keyspace.snapshot_names(),
    }
}

/// Replaces the store's error for a missing object by the result of `unknown`.
///
/// # Errors
/// [`LookupError::Unknown`] in place of [`ErrorKind::NotFound`]; all other errors of the store.
pub fn or_known<T>(result: Result<T>, unknown: impl FnOnce() -> Unknown) -> Result<T, LookupError> {
    result.map_err(|error| match error.kind() {
        ErrorKind::NotFound => LookupError::Unknown(unknown()),
        _ => LookupError::Store(error),
    })
}
