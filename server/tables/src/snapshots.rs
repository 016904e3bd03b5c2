//! Keyspaces as of snapshots, and those of them that are listed in `system_schema`.
//!
//! For clients a snapshot `s` of `ks` is the keyspace `ks@s`. Some clients reject keyspaces that
//! are missing in `system_schema`: cqlsh, before it shows the rows of a SELECT, and its COPY. But
//! every driver reads all of `system_schema` when it connects, and there may be thousands of
//! snapshots of hundreds of tables. So a setting determines how many of the newest snapshots of
//! each keyspace are listed, by default none. Statements can name any snapshot. Snapshots never
//! change, so the schemas of the listed ones are cached: answering drivers reads no old files.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_model::access::Resource;
use ebb_model::schema::KeyspaceSchema;
use ebb_storage::{Db, Keyspace, SeqNo, SnapshotScope};

use super::catalog::CatalogState;
use super::error::{CatalogError, Result};
use super::table::stored_schema;

/// The separator between keyspace and snapshot in the name of a snapshot's keyspace.
pub const SNAPSHOT_SIGN: char = '@';

/// Returns a keyspace as of a snapshot: its tables with the columns that they had, and the types
/// that these columns used. All other types, and the options of the keyspace, are taken from `now`,
/// the current keyspace. Unreadable tables are included as such.
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

/// Returns the resource that a snapshot covers: a role that has SNAPSHOT on it may renew and delete the
/// snapshot. For a snapshot of one table that was dropped since then, this is all tables of the keyspace: see
/// [`Resource::table_at_snapshot`].
///
/// # Errors
/// If there is no such snapshot.
pub fn covered_resource(
    keyspace: &Keyspace,
    snapshot: &str,
) -> Result<Resource, ebb_storage::Error> {
    Ok(match keyspace.snapshot_scope(snapshot)? {
        SnapshotScope::Keyspace => Resource::keyspace(keyspace.name()),
        SnapshotScope::Table(table) => {
            let covered = keyspace.snapshot(snapshot)?.table(&table);
            let is_live = covered.is_ok_and(|covered| !covered.is_dropped());
            Resource::table_at_snapshot(keyspace.name(), &table, is_live)
        }
    })
}

/// A keyspace as of a snapshot, which CQL statements read under the name `KEYSPACE@SNAPSHOT`.
#[derive(Debug, Clone)]
pub struct SnapshotKeyspace {
    /// The name of the snapshot's keyspace, as in `ks@s`.
    pub name: String,
    /// The sequence number of the snapshot.
    pub seq: SeqNo,
    /// The keyspace as of the snapshot. The name in it is that of the keyspace alone, as in `ks`.
    pub schema: Arc<KeyspaceSchema>,
}

/// The snapshots that are listed as keyspaces.
#[derive(Debug, Default)]
pub(super) struct SnapshotKeyspaces {
    /// The maximal number of snapshots of each keyspace that are listed, the newest ones; 0 to list
    /// none.
    pub(super) max: AtomicU32,
    /// Locked during a listing. When many drivers connect at once, only the first one waits for files,
    /// and the others find the schemas in the cache.
    listing: Mutex<()>,
    /// A cache of the schemas of listed snapshots. Its lock must not be held while files are read: an
    /// expired snapshot is removed from the cache under a lock of the database, which would then wait
    /// for the disk.
    known: Mutex<KnownKeyspaces>,
}

/// The entries of the cache, by names such as `ks@s`. An entry contains the schema that the
/// keyspace `ks` had when the entry was created, and the keyspace as of the snapshot `s`, which was
/// computed from this schema.
type KnownKeyspaces = HashMap<String, (Arc<KeyspaceSchema>, SnapshotKeyspace)>;

impl SnapshotKeyspaces {
    /// Removes an expired snapshot from the cache. Returns the keyspace as of the snapshot if the
    /// snapshot was in the cache.
    pub(super) fn forget(&self, keyspace: &str, snapshot: &str) -> Option<Arc<KeyspaceSchema>> {
        let name = format!("{keyspace}{SNAPSHOT_SIGN}{snapshot}");
        let gone = self.known().remove(&name);
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
        self.list_by(db, state, |now, snapshot| keyspace_at(db, now, snapshot))
    }

    /// Returns the listed snapshots by keyspace, oldest first. `read` returns the keyspace as of a
    /// snapshot that is not in the cache.
    fn list_by(
        &self,
        db: &Db,
        state: &CatalogState,
        read: impl Fn(&KeyspaceSchema, &str) -> Result<KeyspaceSchema>,
    ) -> Vec<SnapshotKeyspace> {
        let _listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = Vec::new();
        for now in state.schema().keyspaces() {
            let Ok(keyspace) = db.existing_keyspace(now.name()) else {
                continue;
            };
            for snapshot in &self.names(&keyspace) {
                let Ok(seq) = keyspace.snapshot_seq(snapshot) else {
                    continue;
                };
                let name = format!("{}{SNAPSHOT_SIGN}{snapshot}", now.name());
                if let Some(found) = self.cached(&name, now, seq) {
                    list.push(found);
                    continue;
                }
                let Ok(schema) = read(now, snapshot) else {
                    continue;
                };
                let schema = Arc::new(schema);
                let found = SnapshotKeyspace { name, seq, schema };
                let mut known = self.known();
                // If the snapshot expired during the read, `forget` was already called, and nothing
                // would remove it from the cache.
                if keyspace.snapshot_seq(snapshot).is_ok_and(|at| at == seq) {
                    known.insert(found.name.clone(), (now.clone(), found.clone()));
                }
                drop(known);
                list.push(found);
            }
        }
        self.keep_only(&list);
        list
    }

    /// Removes all snapshots that are not in `listed` from the cache.
    fn keep_only(&self, listed: &[SnapshotKeyspace]) {
        let names: HashSet<&str> = listed.iter().map(|one| &*one.name).collect();
        self.known().retain(|name, _| names.contains(&**name));
    }

    /// Returns the snapshot's keyspace with the name `name` from the cache. Returns `None` unless
    /// it belongs to the snapshot at `seq` (an earlier snapshot may have had the same name) and was
    /// computed from the keyspace `now`.
    fn cached(
        &self,
        name: &str,
        now: &Arc<KeyspaceSchema>,
        seq: SeqNo,
    ) -> Option<SnapshotKeyspace> {
        let known = self.known();
        let (of, found) = known.get(name)?;
        (Arc::ptr_eq(of, now) && found.seq == seq).then(|| found.clone())
    }

    fn known(&self) -> MutexGuard<'_, KnownKeyspaces> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use ebb_model::schema::Schema;
    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Maintenance, Options};

    use super::*;

    /// Returns a database with a keyspace `app` and its snapshot `s`, the schema, and an empty cache of
    /// listed snapshots.
    fn with_snapshot() -> (Db, CatalogState, SnapshotKeyspaces) {
        let options = Options {
            disk: Arc::new(MemDisk::new()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let db = Db::open("/db", options).unwrap();
        db.keyspace("app").unwrap().create_snapshot("s").unwrap();
        let replication = [("class".to_string(), "SimpleStrategy".to_string())];
        let app = KeyspaceSchema::new("app", BTreeMap::from(replication), true).unwrap();
        let schema = Schema::default().create_keyspace(app).unwrap();
        let snapshots = SnapshotKeyspaces::default();
        snapshots.max.store(8, Ordering::Relaxed);
        (db, CatalogState::new(schema, HashMap::new()), snapshots)
    }

    /// Regression: a snapshot that expired while a listing read files waited for these reads, and
    /// held a lock of the database meanwhile.
    #[test]
    fn a_snapshot_that_expires_while_a_listing_reads_it_is_forgotten_at_once_and_for_good() {
        let (db, state, snapshots) = with_snapshot();
        let list = snapshots.list_by(&db, &state, |now, name| {
            assert!(snapshots.known.try_lock().is_ok(), "the cache is locked");
            let keyspace = db.existing_keyspace("app").unwrap();
            keyspace.delete_snapshot(name).unwrap();
            assert!(snapshots.forget("app", name).is_none());
            Ok(now.clone())
        });
        assert_eq!(list.len(), 1);
        assert!(snapshots.known().is_empty());
    }

    #[test]
    fn a_listed_snapshot_is_read_once_and_leaves_the_cache_with_its_end() {
        let (db, state, snapshots) = with_snapshot();
        let reads = Cell::new(0);
        let list = || {
            let read = |now: &KeyspaceSchema, _: &str| {
                reads.set(reads.get() + 1);
                Ok(now.clone())
            };
            snapshots.list_by(&db, &state, read).len()
        };
        assert_eq!([list(), list()], [1, 1]);
        assert_eq!(reads.get(), 1);
        let keyspace = db.existing_keyspace("app").unwrap();
        keyspace.delete_snapshot("s").unwrap();
        assert_eq!(list(), 0);
        assert!(snapshots.known().is_empty());
    }
}
