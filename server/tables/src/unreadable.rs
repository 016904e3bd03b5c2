//! Lists the unreadable parts of a database's schema, for commands that change nothing.

use ebb_catalog::schema::{KeyspaceSchema, Unreadable};
use ebb_storage::{Db, ErrorKind};

use super::error::{CatalogError, Result};
use super::load::load;
use super::snapshots::{keyspace_at, unreadable_tables};
use super::survey::Survey;

/// Lists the objects of a database's schema that a server cannot read, those of snapshots
/// included. It writes nothing: the database may be open to be read only.
///
/// # Errors
/// If the store failed for another reason than damage.
pub fn unreadable_objects(db: &Db) -> Result<Vec<Unreadable>> {
    let schema = load(Survey::of(db)?.keyspaces).schema;
    let mut all = schema.all_unreadable();
    for keyspace in schema.keyspaces() {
        all.extend(in_snapshots(db, keyspace)?);
    }
    Ok(all)
}

fn in_snapshots(db: &Db, now: &KeyspaceSchema) -> Result<Vec<Unreadable>> {
    let mut all = Vec::new();
    // A creation that was cut short may have left a record alone.
    let Ok(keyspace) = db.existing_keyspace(now.name()) else {
        return Ok(all);
    };
    for snapshot in keyspace.snapshot_names() {
        match keyspace_at(db, now, &snapshot) {
            Ok(then) => all.extend(unreadable_tables(&then, &snapshot)),
            // It expired meanwhile.
            Err(CatalogError::Store(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
