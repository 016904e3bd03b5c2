//! Keyspaces as of snapshots, and those of them that are listed in `system_schema`.
//!
//! For clients a snapshot `s` of `ks` is the keyspace `ks@s`. Some clients reject keyspaces that
//! are missing in `system_schema`: cqlsh, before it shows the rows of a SELECT, and its COPY. But
//! every driver reads all of `system_schema` when it connects, and there may be thousands of
//! snapshots of hundreds of tables. So a setting determines how many of the newest snapshots of
//! each keyspace are listed, by default none. Statements can name any snapshot. Snapshots never
//! change, so the schemas of the listed ones are cached: answering drivers reads no old files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ebb_model::schema::KeyspaceSchema;
use ebb_storage::{Db, Keyspace, SeqNo};

use super::catalog::CatalogState;
use super::error::{CatalogError, Result};
use super::table::stored_schema;

/// The separator between keyspace and snapshot in the name of a snapshot's keyspace.
pub const SNAPSHOT_SIGN: char = '@';

/// Returns a keyspace as of a snapshot: its tables with the columns that they had, and the types
/// that these columns used. Other types are those of `now`. Unreadable tables are included as such.
///
/// # Errors
/// If there is no such snapshot; errors of the store.
pub fn keyspace_at(db: &Db, now: &KeyspaceSchema, snapshot: &str) -> Result<KeyspaceSchema> {
    keyspace_with_tables_at(db, now, snapshot, |_| true)
}

/// Returns a keyspace like [`keyspace_at`], but only with the tables whose names `has_table`
/// accepts. The records of other tables are not read.
///
/// # Errors
/// See [`keyspace_at`].
pub fn keyspace_with_tables_at(
    db: &Db,
    now: &KeyspaceSchema,
    snapshot: &str,
    has_table: impl Fn(&str) -> bool,
) -> Result<KeyspaceSchema> {
    // The record of the keyspace contains its types and no tables.
    let then = KeyspaceSchema::decode(&now.encode()).map_err(CatalogError::Schema)?;
    let mut then = then.at_snapshot(snapshot);
    let opened = db.existing_keyspace(now.name())?.snapshot(snapshot)?;
    for table in opened.tables().filter(|table| has_table(table)) {
        let rows = opened.table(table)?;
        then = match stored_schema(&rows, (now.name(), table))? {
            None => then,
            Some(Ok(schema)) => {
                (then.with_table_and_types(schema)).map_err(CatalogError::Schema)?
            }
            Some(Err(why)) => then.with_unreadable_table(table, &why),
        };
    }
    Ok(then)
}

/// A snapshot as a keyspace.
#[derive(Debug, Clone)]
pub struct SnapshotKeyspace {
    /// The name of the snapshot's keyspace, as in `ks@s`.
    pub name: String,
    /// The sequence number of the snapshot.
    pub seq: SeqNo,
    /// The keyspace as of the snapshot, under its own name.
    pub schema: Arc<KeyspaceSchema>,
}

/// The snapshots that are listed as keyspaces.
#[derive(Debug, Default)]
pub(super) struct SnapshotKeyspaces {
    /// The number of snapshots per keyspace, the newest ones, that are listed.
    pub(super) max: AtomicU32,
    /// A cache by name. Each entry has the current keyspace that its schema was computed from.
    known: Mutex<HashMap<String, (Arc<KeyspaceSchema>, SnapshotKeyspace)>>,
}

impl SnapshotKeyspaces {
    /// Removes an expired snapshot from the cache. Returns its keyspace, if it was cached.
    pub(super) fn forget(&self, keyspace: &str, snapshot: &str) -> Option<Arc<KeyspaceSchema>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = known.remove(&format!("{keyspace}{SNAPSHOT_SIGN}{snapshot}"));
        gone.map(|(_, gone)| gone.schema)
    }

    /// Returns the names of the listed snapshots of a keyspace, oldest first.
    pub(super) fn names(&self, keyspace: &Keyspace) -> Vec<String> {
        let max = self.max.load(Ordering::Relaxed);
        if max == 0 {
            return Vec::new();
        }
        let mut names = keyspace.snapshot_names();
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        names.drain(..names.len().saturating_sub(max));
        names
    }

    /// Returns the listed snapshots by keyspace, oldest first. Unreadable snapshots are left out:
    /// an error would keep every driver from connecting.
    pub(super) fn list(&self, db: &Db, state: &CatalogState) -> Vec<SnapshotKeyspace> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = HashMap::new();
        let mut list = Vec::new();
        for now in state.schema().keyspaces() {
            let Ok(keyspace) = db.existing_keyspace(now.name()) else {
                continue;
            };
            for snapshot in &self.names(&keyspace) {
                let Ok(opened) = keyspace.snapshot(snapshot) else {
                    continue;
                };
                let name = format!("{}{SNAPSHOT_SIGN}{snapshot}", now.name());
                let is_same = |(of, known): &(Arc<KeyspaceSchema>, SnapshotKeyspace)| {
                    Arc::ptr_eq(of, now) && known.seq == opened.seq()
                };
                let found = match known.remove(&name).filter(is_same) {
                    Some((_, found)) => found,
                    None => match keyspace_at(db, now, snapshot) {
                        Ok(schema) => SnapshotKeyspace {
                            name: name.clone(),
                            seq: opened.seq(),
                            schema: Arc::new(schema),
                        },
                        Err(_) => continue,
                    },
                };
                list.push(found.clone());
                next.insert(name, (now.clone(), found));
            }
        }
        *known = next;
        list
    }
}
