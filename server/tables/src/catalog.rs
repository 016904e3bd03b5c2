//! The schema as it is now, and the one place where it changes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use ebb_model::schema::{KeyspaceSchema, Schema, Unreadable};
use ebb_storage::{Clock, Db, Event, Keyspace, Table, TableOptions};
use uuid::Uuid;

use super::announce::{Announcement, Announcements};
use super::diff;
use super::error::Result;
use super::form::form;
use super::grace::GracePeriods;
use super::identity::{Identity, NODE_TABLE, node_records};
use super::load::{Loaded, load};
use super::roles::{ROLES_TABLE, RoleStore};
use super::snapshots::{SnapshotKeyspace, SnapshotKeyspaces};
use super::store::SchemaStore;
use super::survey::{CREATIONS_TABLE, KEYSPACES_TABLE};
use super::table::CqlTable;
use super::timestamps::Timestamps;
use super::unreadable::in_snapshots;
use crate::names::SYSTEM_KEYSPACE;

/// The newest snapshots of each keyspace whose tables a server reads when it starts.
const SNAPSHOTS_CHECKED_MAX: usize = 32;

/// The catalog of an open database. There is one for each.
#[derive(Debug)]
pub struct Catalog {
    db: Db,
    store: SchemaStore,
    identity: Identity,
    timestamps: Timestamps,
    state: Arc<ArcSwap<CatalogState>>,
    /// States that came before and that somebody may still go by.
    earlier: Mutex<Vec<Weak<CatalogState>>>,
    /// Those of the state, for the merge operator.
    grace_periods: GracePeriods,
    snapshots: Arc<SnapshotKeyspaces>,
    announcements: Arc<Announcements>,
    roles: RoleStore,
    /// The records of the node that could not be read at the opening, and were made anew.
    node_damage: Vec<Unreadable>,
    /// Held while the schema changes.
    changing: Mutex<()>,
}

/// The schema at one moment, with its tables.
#[derive(Debug, Default)]
pub struct CatalogState {
    schema: Schema,
    tables: Tables,
}

/// By keyspace and name.
pub(super) type Tables = HashMap<Arc<str>, HashMap<Arc<str>, Arc<CqlTable>>>;

impl CatalogState {
    pub(super) fn new(schema: Schema, tables: Tables) -> Self {
        Self { schema, tables }
    }

    /// All keyspaces that users made, and what of them cannot be read.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Another one for each schema: what drivers compare.
    pub fn version(&self) -> Uuid {
        self.schema.version()
    }

    /// A table that users made.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<CqlTable>> {
        self.tables.get(keyspace)?.get(name)
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }
}

impl Catalog {
    /// The catalog of a database that knows [the operator](super::CQL_ROW), which was given
    /// the same `grace_periods`. What a crash cut in half is completed. Tables, types, keyspaces and
    /// roles whose records are damaged are out of service, and damaged records of the node are made
    /// anew: see [`Catalog::unreadable`].
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub fn open(db: &Db, grace_periods: &GracePeriods, clock: Arc<dyn Clock>) -> Result<Self> {
        let own = db.keyspace(SYSTEM_KEYSPACE)?;
        let own = |name| own.table(name, TableOptions::default());
        let node = own(NODE_TABLE)?;
        let (identity, identity_damage) = Identity::open(db, &node)?;
        let (timestamps, bound_damage) = Timestamps::open(node, clock)?;
        let node_damage = node_records(identity_damage, bound_damage);
        let (keyspaces, creations) = (own(KEYSPACES_TABLE)?, own(CREATIONS_TABLE)?);
        let (store, found) = SchemaStore::open(db, keyspaces, creations)?;
        let Loaded { schema, mut tables } = load(found);
        let of_keyspace = |keyspace: &Arc<KeyspaceSchema>| {
            let rows = tables.remove(keyspace.name()).unwrap_or_default();
            let with_schema = |rows: Table| {
                let schema = keyspace.table(rows.name())?.clone();
                // Where a statement failed before its schema was written, or a build did not heed
                // it. Not worth refusing to open: the next opening tries again.
                let _ = store.alter_table(keyspace.name(), rows.name(), form(&schema));
                let name: Arc<str> = rows.name().into();
                Some((name, Arc::new(CqlTable::new(schema, rows))))
            };
            let all = rows.into_iter().filter_map(with_schema).collect();
            (keyspace.name().into(), all)
        };
        let tables = schema.keyspaces().map(of_keyspace).collect();
        let roles = RoleStore::open(db, own(ROLES_TABLE)?, &schema)?;
        let state = CatalogState { schema, tables };
        grace_periods.set(&state);
        let state = Arc::new(ArcSwap::from_pointee(state));
        let snapshots = Arc::<SnapshotKeyspaces>::default();
        let announcements = Arc::<Announcements>::default();
        db.on_event({
            let (snapshots, announcements) = (Arc::clone(&snapshots), Arc::clone(&announcements));
            // The database must not keep its own tables alive.
            let state = Arc::downgrade(&state);
            move |event| {
                let &Event::SnapshotExpired {
                    keyspace,
                    name: snapshot,
                } = event
                else {
                    return;
                };
                let known = snapshots.forget(keyspace, snapshot);
                if snapshots.max.load(Ordering::Relaxed) == 0 {
                    return;
                }
                let state = state.upgrade().map(|state| state.load_full());
                if state.is_some_and(|state| state.schema.keyspace(keyspace).is_some()) {
                    announcements.tell(Announcement::SnapshotExpired {
                        keyspace,
                        snapshot,
                        then: known.as_deref(),
                    });
                }
            }
        });
        Ok(Self {
            db: db.clone(),
            store,
            identity,
            timestamps,
            state,
            earlier: Mutex::default(),
            grace_periods: grace_periods.clone(),
            snapshots,
            announcements,
            roles,
            node_damage,
            changing: Mutex::new(()),
        })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the server's own timestamps come from.
    pub fn timestamps(&self) -> &Timestamps {
        &self.timestamps
    }

    /// Who may do what.
    pub fn roles(&self) -> &RoleStore {
        &self.roles
    }

    /// The schema as it is now. One statement asks once, so that all that it sees fits.
    pub fn state(&self) -> Arc<CatalogState> {
        self.state.load_full()
    }

    /// Sets how many snapshots of each keyspace, the newest, are listed as keyspaces to clients
    /// that read the whole schema. A catalog that was opened lists none.
    pub fn set_listed_snapshots(&self, max: u32) {
        self.snapshots.max.store(max, Ordering::Relaxed);
    }

    /// Returns whether a snapshot of a keyspace is listed as a keyspace.
    pub fn is_snapshot_listed(&self, keyspace: &Keyspace, snapshot: &str) -> bool {
        let listed = self.snapshots.names(keyspace);
        listed.iter().any(|name| name == snapshot)
    }

    /// Returns the snapshots that are listed as keyspaces, by keyspace, oldest first.
    pub fn snapshot_keyspaces(&self, state: &CatalogState) -> Vec<SnapshotKeyspace> {
        self.snapshots.list(&self.db, state)
    }

    /// What drivers compare to see whether what they know is old: another one for each
    /// schema, and for other snapshots that are listed.
    pub fn version(&self, state: &CatalogState) -> Uuid {
        let listed = self.snapshot_keyspaces(state);
        if listed.is_empty() {
            return state.version();
        }
        let each = listed
            .iter()
            .map(|one| format!("{} {}\n", one.name, one.seq.0));
        Uuid::new_v3(&state.version(), each.collect::<String>().as_bytes())
    }

    /// Lists the objects that cannot be read: of the schema as it is now, of the roles, and of the
    /// node as it was found. It reads no file.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let mut all = self.state().schema().all_unreadable();
        all.extend(self.roles.state().all_unreadable());
        all.extend(self.node_damage.iter().cloned());
        all
    }

    /// Lists the tables that cannot be read of the newest 32 snapshots of each keyspace. It may
    /// read the schema of each table in each of them from files.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub fn unreadable_in_snapshots(&self) -> Result<Vec<Unreadable>> {
        let mut all = Vec::new();
        for keyspace in self.state().schema().keyspaces() {
            all.extend(in_snapshots(&self.db, keyspace, SNAPSHOTS_CHECKED_MAX)?);
        }
        Ok(all)
    }

    /// Changes the schema: `decide` says of the present one what comes next, or nothing.
    /// The new one is durable and seen by all before this returns; whether there is one is
    /// the answer.
    ///
    /// Permissions on what goes go with it.
    ///
    /// Only one change that a statement may ask for is carried out at a time: one keyspace
    /// or table that is new or gone, or records of one keyspace that are others.
    ///
    /// # Errors
    /// Inside, the error of `decide`: nothing is changed. Outside, [`CatalogError::Schema`] if the
    /// next opening could not read the change: nothing is changed either. Otherwise an error of the
    /// store: the change may be found after the next opening.
    ///
    /// [`CatalogError::Schema`]: super::CatalogError::Schema
    pub fn change<E>(
        &self,
        decide: impl FnOnce(&Schema) -> Result<Option<Schema>, E>,
    ) -> Result<Result<bool, E>> {
        self.exclusively(|state| {
            let next = match decide(&state.schema) {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(Ok(false)),
                Err(refused) => return Ok(Err(refused)),
            };
            let publish = |state: CatalogState| {
                self.grace_periods.set(&state);
                let before = self.state.swap(Arc::new(state));
                let mut earlier = self.lock_earlier();
                earlier.retain(|state| state.strong_count() > 0);
                earlier.push(Arc::downgrade(&before));
            };
            // What could not be removed with the last change must not hold for what is new.
            self.roles.retain(&state.schema)?;
            diff::carry_out(&self.store, state, next, publish)?;
            self.roles.retain(self.state().schema())?;
            Ok(Ok(true))
        })
    }

    /// The states before the present one that somebody still holds. Whoever writes holds the
    /// state that it goes by until the write is committed: once these are gone, all that is
    /// written later is by a state at least as new as the present one.
    pub fn earlier_states(&self) -> Vec<Weak<CatalogState>> {
        let mut earlier = self.lock_earlier();
        earlier.retain(|state| state.strong_count() > 0);
        earlier.clone()
    }

    fn lock_earlier(&self) -> std::sync::MutexGuard<'_, Vec<Weak<CatalogState>>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever makes a table beside the statements of clients, as jobs do, says so here once it
    /// is there.
    pub fn announce_table(&self, keyspace: &str, table: &str) {
        let created = Announcement::TableCreated { keyspace, table };
        self.announcements.tell(created);
    }

    /// From now on `hear` is told of tables that are announced, and of snapshots that expire. It
    /// must not wait, nor call the catalog or its database.
    pub fn on_announcement(&self, hear: impl Fn(Announcement<'_>) + Send + Sync + 'static) {
        self.announcements.subscribe(Box::new(hear));
    }

    /// Removes all rows of a table, for good but for the snapshots that cover it.
    ///
    /// # Errors
    /// When the store fails.
    pub fn truncate(&self, table: &CqlTable) -> Result<()> {
        // Not beside an ALTER, whose record this would undo.
        self.exclusively(|state| {
            let schema = table.schema();
            let now = state.table(schema.keyspace(), schema.name());
            match now {
                Some(now) if now.schema().id() == schema.id() => {
                    self.store.truncate(now.rows(), &now.schema().encode())
                }
                _ => Ok(self.store.truncate(table.rows(), &schema.encode())?),
            }
        })
    }

    /// Does what must not come between the steps of a change: CREATE SNAPSHOT.
    pub fn exclusively<T>(&self, work: impl FnOnce(&CatalogState) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        work(&self.state())
    }
}
