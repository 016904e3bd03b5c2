//! Keyspaces as they were at snapshots, and those that are listed in `system_schema`.
//!
//! A snapshot `s` of `ks` is for clients the keyspace `ks@s`. Some learn from `system_schema`
//! what there is and refuse what they do not find there: cqlsh before it shows the rows of a
//! SELECT, and its COPY. But every driver reads all of `system_schema` when it connects, and
//! there may be thousands of snapshots of hundreds of tables. So none is listed, or the newest of
//! each keyspace, by a setting. A statement that names a snapshot reads any of them. The schemas of
//! listed ones are kept, as snapshots never change: answering drivers costs no look into old files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ebb_model::schema::KeyspaceSchema;
use ebb_storage::{Db, Keyspace, SeqNo};

use super::catalog::CatalogState;
use super::error::{CatalogError, Result};
use super::table::stored_schema;

/// Between keyspace and snapshot, in the name of the keyspace that a snapshot is.
pub const SNAPSHOT_SIGN: char = '@';

/// A keyspace as it was at a snapshot: its tables with the columns that they had, and the types
/// that they used. Other types are those of `now`. Tables that cannot be read are in it as such.
///
/// # Errors
/// If there is no such snapshot; errors of the store.
pub fn keyspace_at(db: &Db, now: &KeyspaceSchema, snapshot: &str) -> Result<KeyspaceSchema> {
    keyspace_with_tables_at(db, now, snapshot, |_| true)
}

/// Returns a keyspace as [`keyspace_at`] does, but only with the tables whose names `has_table`
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
    // Its record has its types and no tables.
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
    /// `ks@s`.
    pub name: String,
    /// The commit at which it stands.
    pub seq: SeqNo,
    /// The keyspace at that moment, under its own name.
    pub schema: Arc<KeyspaceSchema>,
}

/// The snapshots that are listed as keyspaces.
#[derive(Debug, Default)]
pub(super) struct SnapshotKeyspaces {
    /// How many of each keyspace, the newest, are listed.
    pub(super) max: AtomicU32,
    /// By name, each with the keyspace of now that it was made with.
    known: Mutex<HashMap<String, (Arc<KeyspaceSchema>, SnapshotKeyspace)>>,
}

impl SnapshotKeyspaces {
    /// Forgets a snapshot that is gone; what was known of its keyspace.
    pub(super) fn forget(&self, keyspace: &str, snapshot: &str) -> Option<Arc<KeyspaceSchema>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = known.remove(&format!("{keyspace}{SNAPSHOT_SIGN}{snapshot}"));
        gone.map(|(_, gone)| gone.schema)
    }

    /// Returns the names of the snapshots of a keyspace that are listed, oldest first.
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

    /// Returns the snapshots that are listed, by keyspace, oldest first. One that the store cannot
    /// read is not among them: no driver could connect.
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
