//! Finding things in a database by name, with errors that tell what there is instead.

use ebb_storage::{Db, Error, ErrorKind, Keyspace, Result, Snapshot, SnapshotTable, Table};

use crate::names::TableName;

/// A keyspace, table, snapshot or job that is not there; tells which are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} named {name:?} in {place}; {}", list(.what, .known))]
pub struct Unknown {
    /// "keyspace", "table", "snapshot" or "job".
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// Where it was looked for.
    pub place: String,
    /// The names that are there.
    pub known: Vec<String>,
}

/// Names on one line beyond which a list is of no help.
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

/// Why something was not found.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// It is not there.
    #[error("{0}")]
    Unknown(#[source] Unknown),
    /// The store failed.
    #[error("{0}")]
    Store(#[source] Error),
}

/// The keyspace of this name.
///
/// # Errors
/// When there is none.
pub fn keyspace(db: &Db, name: &str) -> Result<Keyspace, LookupError> {
    or_known(db.existing_keyspace(name), || Unknown {
        what: "keyspace",
        name: name.to_string(),
        place: "the database".to_string(),
        known: db.keyspaces(),
    })
}

/// The table of this name, as it is now.
///
/// # Errors
/// When there is none.
pub fn table(db: &Db, name: &TableName) -> Result<Table, LookupError> {
    let keyspace = keyspace(db, &name.keyspace)?;
    or_known(keyspace.existing_table(&name.table), || {
        unknown_table(&keyspace, &name.table)
    })
}

/// The table of this name, as it was when a snapshot was created.
///
/// # Errors
/// When there is none, or no such snapshot.
pub fn snapshot_table(
    db: &Db,
    name: &TableName,
    snapshot: &str,
) -> Result<SnapshotTable, LookupError> {
    let keyspace = keyspace(db, &name.keyspace)?;
    let snapshot: Snapshot = or_known(keyspace.snapshot(snapshot), || {
        unknown_snapshot(&keyspace, snapshot)
    })?;
    or_known(snapshot.table(&name.table), || Unknown {
        what: "table",
        name: name.table.clone(),
        place: format!("snapshot {} of {}", snapshot.name(), keyspace.name()),
        known: snapshot.tables().map(str::to_string).collect(),
    })
}

/// That a keyspace has no such table.
pub fn unknown_table(keyspace: &Keyspace, table: &str) -> Unknown {
    Unknown {
        what: "table",
        name: table.to_string(),
        place: format!("keyspace {}", keyspace.name()),
        known: keyspace.tables(),
    }
}

/// That a keyspace has no such snapshot.
pub fn unknown_snapshot(keyspace: &Keyspace, snapshot: &str) -> Unknown {
    Unknown {
        what: "snapshot",
        name: snapshot.to_string(),
        place: format!("keyspace {}", keyspace.name()),
        known: keyspace.snapshot_names(),
    }
}

/// `unknown` in the place of an error that says that the thing is not there.
///
/// # Errors
/// That, or whatever else the store says.
pub fn or_known<T>(result: Result<T>, unknown: impl FnOnce() -> Unknown) -> Result<T, LookupError> {
    result.map_err(|error| match error.kind() {
        ErrorKind::NotFound => LookupError::Unknown(unknown()),
        _ => LookupError::Store(error),
    })
}
