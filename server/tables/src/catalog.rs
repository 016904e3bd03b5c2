//! The current schema, and the single place where it changes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use ebb_model::schema::{KeyspaceSchema, Schema, Unreadable};
use ebb_storage::{Clock, Db, Event, Keyspace, Table, TableOptions};
use uuid::Uuid;

use super::announce::{Announcement, Announcements};
use super::diff;
use super::error::{CatalogError, Result};
use super::form::form;
use super::grace::GracePeriods;
use super::identity::{Identity, NODE_TABLE, node_records};
use super::load::{LoadedSchema, load};
use super::losses::{LossUnderWay, Losses};
use super::owned_snapshots::{OwnedSnapshots, ROLE_SNAPSHOTS_TABLE};
use super::rewrite;
use super::roles::{ROLES_TABLE, RoleStore};
use super::snapshots::{SnapshotKeyspace, SnapshotKeyspaces};
use super::store::SchemaStore;
use super::survey::{CREATIONS_TABLE, KEYSPACES_TABLE, StoredKeyspace, StoredTable, Survey};
use super::table::CqlTable;
use super::timestamps::Timestamps;
use super::unreadable::in_snapshots;
use crate::names::SYSTEM_KEYSPACE;

/// The number of snapshots per keyspace, the newest ones, that [`Catalog::unreadable_in_snapshots`]
/// checks. It bounds the files that a call reads.
const SNAPSHOTS_CHECKED_MAX: usize = 32;

/// The catalog of an open database: its schema, roles, identity and timestamps. A database must not
/// have two catalogs, because each would assign timestamps that the other one assigns, too, and
/// would miss the other one's changes.
#[derive(Debug)]
pub struct Catalog {
    db: Db,
    store: SchemaStore,
    identity: Identity,
    timestamps: Timestamps,
    state: Arc<ArcSwap<CatalogState>>,
    /// Earlier states that a statement may still be using.
    earlier: Mutex<Vec<Weak<CatalogState>>>,
    /// The grace periods of the current tables: how long merges keep deletions. The merge operator reads
    /// them.
    grace_periods: GracePeriods,
    snapshots: Arc<SnapshotKeyspaces>,
    announcements: Arc<Announcements>,
    roles: RoleStore,
    /// The records of the node itself that could not be read when the catalog was opened, and were
    /// then replaced by new ones.
    node_damage: Vec<Unreadable>,
    losses: Losses,
    /// Locked during a change of the schema, and while a statement or a request creates, renews or
    /// deletes a snapshot. A thread must take the locks in this order: `creating_snapshots` of the
    /// roles, this lock, the other locks of the roles.
    changing: Mutex<()>,
}

/// The schema at one moment, with its tables.
#[derive(Debug, Default)]
pub struct CatalogState {
    schema: Schema,
    tables: Tables,
}

/// Tables by keyspace, then by name.
pub(super) type Tables = HashMap<Arc<str>, HashMap<Arc<str>, Arc<CqlTable>>>;

impl CatalogState {
    pub(super) fn new(schema: Schema, tables: Tables) -> Self {
        Self { schema, tables }
    }

    /// Returns the state of a schema that was read from the records. For a table that is in
    /// `known`, the state contains the object from `known`, so that all threads share one object
    /// per table.
    fn of(store: &SchemaStore, loaded: LoadedSchema, known: &Tables) -> Self {
        let LoadedSchema { schema, mut tables } = loaded;
        let of_keyspace = |keyspace: &Arc<KeyspaceSchema>| {
            let known = known.get(keyspace.name());
            let rows = tables.remove(keyspace.name()).unwrap_or_default();
            let with_schema = |rows: Table| {
                let schema = keyspace.table(rows.name())?.clone();
                let name: Arc<str> = rows.name().into();
                if let Some(table) = known.and_then(|known| known.get(&name)) {
                    return Some((name, Arc::clone(table)));
                }
                // The options may be stale if a statement failed before it wrote its schema, or if a
                // build ignored them. The next opening tries again, so an error here is no reason to
                // refuse this one.
                let _ = store.alter_table(keyspace.name(), rows.name(), form(&schema));
                Some((name, Arc::new(CqlTable::new(schema, rows))))
            };
            let all = rows.into_iter().filter_map(with_schema).collect();
            (keyspace.name().into(), all)
        };
        let tables = schema.keyspaces().map(of_keyspace).collect();
        Self { schema, tables }
    }

    /// Returns the schema: all keyspaces that users created, with the names of unreadable objects.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the version of the schema: see [`Schema::version`].
    pub fn version(&self) -> Uuid {
        self.schema.version()
    }

    /// Returns a table that a user created; `None` if it does not exist, or if it or its keyspace
    /// is unreadable.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<CqlTable>> {
        self.tables.get(keyspace)?.get(name)
    }

    /// Returns the current form of `table`; `None` if that table was dropped. Another table may have its
    /// name since then, and even its id, which a statement may choose.
    pub fn current(&self, table: &CqlTable) -> Option<&Arc<CqlTable>> {
        let schema = table.schema();
        let now = self.table(schema.keyspace(), schema.name())?;
        now.rows().is_same_table(table.rows()).then_some(now)
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the keyspace and the name of each table that `other` does not have.
    fn tables_missing_in(&self, other: &Self) -> Vec<(Arc<str>, Arc<str>)> {
        let tables = self.tables.iter();
        let names = tables.flat_map(|(keyspace, of)| of.keys().map(move |name| (keyspace, name)));
        names
            .filter(|(keyspace, name)| other.table(keyspace, name).is_none())
            .map(|(keyspace, name)| (Arc::clone(keyspace), Arc::clone(name)))
            .collect()
    }
}

/// Changes `stored`, the records of a keyspace that were read again from the store, so that the
/// schema in memory stays in use. The records of `keyspace` and its tables, which may be damaged by
/// now, are replaced by the records in memory. The tables of `keyspace` are moved before the
/// unreadable ones: if two tables have an index of the same name, the decoder of the records
/// accepts only the first table.
fn keep(stored: &mut StoredKeyspace, keyspace: &KeyspaceSchema) {
    stored.record = Ok(keyspace.encode().into());
    for table in &mut stored.tables {
        if let Some(schema) = keyspace.table(table.table.name()) {
            table.record = Ok(schema.encode().into());
        }
    }
    let is_unreadable = |of: &StoredTable| keyspace.table(of.table.name()).is_none();
    stored.tables.sort_by_key(is_unreadable);
}

/// Calls [`keep`] for all keyspaces in `state`. Adds those that `stored` lacks: they have no
/// tables, and their records are lost. Leaves out keyspaces that were dropped without the catalog.
fn keep_all(stored: &mut Vec<StoredKeyspace>, state: &CatalogState, db: &Db) {
    for keyspace in state.schema.keyspaces() {
        let name = keyspace.name();
        if let Some(stored) = stored.iter_mut().find(|of| of.name == name) {
            keep(stored, keyspace);
        } else if db.existing_keyspace(name).is_ok() {
            stored.push(StoredKeyspace {
                name: name.to_owned(),
                record: Ok(keyspace.encode().into()),
                tables: Vec::new(),
            });
        }
    }
}

impl Catalog {
    /// Opens the catalog of a database that has [the merge operator of CQL tables](super::CQL_ROW),
    /// created with the same `grace_periods`. Completes or undoes changes that a crash interrupted.
    /// Tables, types, keyspaces and roles whose records are damaged cannot be used. Damaged records
    /// of the node itself are replaced. [`Catalog::unreadable`] lists both.
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
        let state = CatalogState::of(&store, load(found), &Tables::new());
        // After the schema: permissions on objects that it does not have are removed.
        let owned = OwnedSnapshots::open(own(ROLE_SNAPSHOTS_TABLE)?)?;
        let roles = RoleStore::open(db, own(ROLES_TABLE)?, owned, &state.schema)?;
        // Merges that ran before found no grace period, and purged nothing of the tables.
        grace_periods.set(&state);
        let state = Arc::new(ArcSwap::from_pointee(state));
        let snapshots = Arc::<SnapshotKeyspaces>::default();
        let announcements = Arc::<Announcements>::default();
        // Earlier expiries need no event: nothing is cached yet, and there are no subscribers.
        db.on_event({
            let (snapshots, announcements) = (Arc::clone(&snapshots), Arc::clone(&announcements));
            // A strong reference would keep the database's own tables alive.
            let state = Arc::downgrade(&state);
            move |event| {
                let &Event::SnapshotExpired {
                    keyspace,
                    name: snapshot,
                } = event
                else {
                    return;
                };
                // Also if no snapshot is listed any more: the cache must not keep the expired one.
                // A listing does not hold the lock of the cache while it reads schemas.
                let known = snapshots.forget(keyspace, snapshot);
                // Clients are shown no snapshots, so there is nothing to announce.
                if snapshots.max.load(Ordering::Relaxed) == 0 {
                    return;
                }
                // Clients see only the keyspaces of the schema.
                let state = state.upgrade().map(|state| state.load_full());
                if state.is_some_and(|state| state.schema.keyspace(keyspace).is_some()) {
                    announcements.publish(Announcement::SnapshotExpired {
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
            losses: Losses::default(),
            changing: Mutex::new(()),
        })
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the identity of this node.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the source of the server's own timestamps.
    pub fn timestamps(&self) -> &Timestamps {
        &self.timestamps
    }

    pub fn roles(&self) -> &RoleStore {
        &self.roles
    }

    /// Returns the current schema. A statement calls this once, so that every step of it uses the
    /// same schema.
    pub fn state(&self) -> Arc<CatalogState> {
        self.state.load_full()
    }

    /// Sets the number of snapshots per keyspace, the newest ones, that are listed as keyspaces to
    /// clients that read the whole schema. After opening, the number is 0.
    pub fn set_listed_snapshots(&self, max: u32) {
        self.snapshots.max.store(max, Ordering::Relaxed);
    }

    /// Returns the names of the snapshots of a keyspace that are listed as keyspaces, oldest first.
    pub fn listed_snapshots(&self, keyspace: &Keyspace) -> Vec<String> {
        self.snapshots.names(keyspace)
    }

    /// Returns the snapshots that are listed as keyspaces, by keyspace, oldest first.
    pub fn snapshot_keyspaces(&self, state: &CatalogState) -> Vec<SnapshotKeyspace> {
        self.snapshots.list(&self.db, state)
    }

    /// Returns the version that drivers compare to detect that their schema is stale. It depends on
    /// the schema and on the listed snapshots.
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

    /// Lists the unreadable objects: those of the current schema and of the roles, and the node's
    /// own records that were unreadable when the catalog was opened. The call reads no file.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let mut all = self.state().schema().all_unreadable();
        all.extend(self.roles.state().all_unreadable());
        all.extend(self.node_damage.iter().cloned());
        all
    }

    /// Lists the unreadable tables in the newest 32 snapshots of each keyspace. It may read the
    /// schema of each table in each of these snapshots from files.
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

    /// Changes the schema. `decide` gets the current schema and returns the next one, or `None` for
    /// no change. The next schema is durable and visible to all threads before this returns.
    /// Returns whether the schema has changed.
    ///
    /// Permissions on dropped objects are removed, too. If the disk is full, a later change removes
    /// them: at the latest the change that creates an object of the same name. Permissions in the
    /// records of unreadable roles stay. They apply to a new object of the same name if it exists
    /// once the role becomes readable.
    ///
    /// A call can carry out only one change of the kind that a statement makes: one created or
    /// dropped keyspace or table, or changed records of one keyspace.
    ///
    /// # Errors
    /// The inner error is that of `decide`: nothing is changed. The outer error is one of these:
    /// - [`CatalogError::Schema`], if the next opening could not decode the change, or if the store
    ///   already has a CQL table with the name of a new table (unless an interrupted creation left
    ///   it): the schema is unchanged.
    /// - [`CatalogError::Foreign`], if tables that CQL did not create are in the keyspace to be
    ///   created or dropped, or have the name of a new table: the schema is unchanged.
    /// - [`CatalogError::Unfinished`], if a later step failed: the next schema is in effect.
    /// - Any other error comes from the store: the next opening may or may not find the change.
    pub fn change<E>(
        &self,
        decide: impl FnOnce(&Schema) -> Result<Option<Schema>, E>,
    ) -> Result<Result<bool, E>> {
        self.change_state(|state| decide(&state.schema), || {})
    }

    /// Changes the schema as [`change`](Self::change) does, and then calls `then`, if the schema
    /// has changed and no step failed. No other change of the schema begins before `then` returns,
    /// so an object that this change created is not replaced by another one of its name. `then` may
    /// change the roles, but not the schema.
    ///
    /// # Errors
    /// See [`change`](Self::change).
    pub fn change_then<E>(
        &self,
        decide: impl FnOnce(&Schema) -> Result<Option<Schema>, E>,
        then: impl FnOnce(),
    ) -> Result<Result<bool, E>> {
        self.change_state(|state| decide(&state.schema), then)
    }

    /// Changes the schema as [`change`](Self::change) does, unless `table` was dropped: then this
    /// does not call `decide`, changes nothing, and returns false.
    ///
    /// # Errors
    /// See [`change`](Self::change).
    pub fn change_table<E>(
        &self,
        table: &CqlTable,
        decide: impl FnOnce(&Schema) -> Result<Option<Schema>, E>,
    ) -> Result<Result<bool, E>> {
        let decide = |state: &CatalogState| match state.current(table) {
            Some(_) => decide(&state.schema),
            None => Ok(None),
        };
        self.change_state(decide, || {})
    }

    fn change_state<E>(
        &self,
        decide: impl FnOnce(&CatalogState) -> Result<Option<Schema>, E>,
        then: impl FnOnce(),
    ) -> Result<Result<bool, E>> {
        self.exclusively(|state| {
            let next = match decide(state) {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(Ok(false)),
                Err(refused) => return Ok(Err(refused)),
            };
            // Before any permission is removed: a keyspace whose record cannot be read may have the name, and
            // the permissions on it must outlast the refused creation.
            diff::check_creations(&self.store, &state.schema, &next)?;
            self.roles.retain_before_creation(&state.schema, &next)?;
            let mut is_published = false;
            let done = diff::carry_out(&self.store, state, next, |state| {
                self.publish(state);
                is_published = true;
            });
            let done = done.and_then(|()| self.roles.retain(self.state().schema()));
            match done {
                Err(error) if is_published => Err(CatalogError::Unfinished(error.into())),
                Err(error) => Err(error),
                Ok(()) => {
                    then();
                    Ok(Ok(true))
                }
            }
        })
    }

    /// Makes a state the current one.
    fn publish(&self, state: CatalogState) {
        self.grace_periods.set(&state);
        let before = self.state.swap(Arc::new(state));
        let mut earlier = self.lock_earlier();
        earlier.retain(|state| state.strong_count() > 0);
        earlier.push(Arc::downgrade(&before));
    }

    /// Reads the records of unreadable keyspaces, tables and roles again, after damaged files were
    /// replaced. Objects that have become readable can be used when this returns, and their tables
    /// are [announced](Self::on_announcement).
    ///
    /// Objects that were readable before stay as they are, also at the next opening: if their
    /// stored records are lost, damaged or replaced by older ones, this writes the records again.
    /// There is one exception: if two tables have an index of the same name, the next opening reads
    /// only the first table by name, although the other one may be in use now.
    ///
    /// # Errors
    /// If the store failed. If only the records of objects that were readable before could not be
    /// written again, the objects that have become readable can be used all the same.
    pub fn reread(&self) -> Result<()> {
        let written = self.write_again(&|_: &Table| false);
        let served = self.exclusively(|state| self.reread_schema(state));
        for (keyspace, table) in served.iter().flatten() {
            self.announce_table(keyspace, table);
        }
        let of_roles = self.roles.reread();
        // A role that was unreadable may have permissions on objects that were dropped meanwhile.
        // Under the lock of changes: a permission on an object that is created meanwhile must not be removed.
        let retained = self.exclusively(|state| self.roles.retain(state.schema()));
        written.and(served.map(drop)).and(of_roles).and(retained)
    }

    /// Writes the records of readable objects again: all records in the store's table
    /// `keyspace.table`, and those in other tables from which the next opening could not read the
    /// objects.
    ///
    /// Call it before damaged files of this table are rewritten without their lost parts. Otherwise
    /// a crash after the rewrite, and before [`reread`](Self::reread), would lose the records. Even
    /// a record that can still be read may be lost by the rewrite: the read may be served from the
    /// cache while the block on disk is damaged.
    ///
    /// # Errors
    /// If a write fails.
    pub fn write_before_loss(&self, keyspace: &str, table: &str) -> Result<()> {
        self.write_again(&|of: &Table| of.keyspace() == keyspace && of.name() == table)
    }

    /// Begins an accepted loss: until the result is dropped, files may be rewritten without their lost
    /// parts. Call it before [`write_before_loss`](Self::write_before_loss).
    pub fn begin_loss(&self) -> LossUnderWay<'_> {
        self.losses.begin()
    }

    /// Returns the number of losses that were accepted since the catalog was opened; `None` while one is
    /// under way. If two calls return the same number, no accepted loss has removed an entry of the store
    /// in between, or has brought an older version back.
    pub fn losses(&self) -> Option<u64> {
        self.losses.count()
    }

    /// Writes the record of each readable keyspace, table and role again if the next opening could
    /// not read the same object from the stored record, or if `is_at_risk` returns true for the
    /// store's table that contains the record.
    fn write_again(&self, is_at_risk: &dyn Fn(&Table) -> bool) -> Result<()> {
        let names: Vec<String> = (self.state().schema().keyspaces())
            .map(|keyspace| keyspace.name().to_owned())
            .collect();
        for name in names {
            // The lock is released after each keyspace, because every record is read.
            let stores = (&self.db, &self.store);
            self.exclusively(|state| rewrite::write_again(stores, state, &name, is_at_risk))?;
        }
        self.roles.write_again(is_at_risk)
    }

    /// Reads the schema again if a part of it is unreadable, and makes the result the current
    /// schema if other objects are unreadable now. Returns the keyspace and the name of each table
    /// that has become readable.
    fn reread_schema(&self, now: &CatalogState) -> Result<Vec<(Arc<str>, Arc<str>)>> {
        let unreadable = now.schema.all_unreadable();
        if unreadable.is_empty() {
            return Ok(Vec::new());
        }
        let mut stored = Survey::of(&self.db)?.keyspaces;
        keep_all(&mut stored, now, &self.db);
        for keyspace in stored.iter().filter(|of| of.record.is_ok()) {
            self.db.keyspace(&keyspace.name)?;
        }
        let next = CatalogState::of(&self.store, load(stored), &now.tables);
        let served = next.tables_missing_in(now);
        if next.schema.all_unreadable() != unreadable {
            self.publish(next);
        }
        Ok(served)
    }

    /// Returns the earlier states that are still in use. A writer holds its state until its write is
    /// committed: once these states are gone, all later writes use a state at least as new as the
    /// current one.
    pub fn earlier_states(&self) -> Vec<Weak<CatalogState>> {
        let mut earlier = self.lock_earlier();
        earlier.retain(|state| state.strong_count() > 0);
        earlier.clone()
    }

    fn lock_earlier(&self) -> std::sync::MutexGuard<'_, Vec<Weak<CatalogState>>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a table that no statement created to the subscribers: a job has created it, or it
    /// has become readable. Call this once the table is in the schema.
    pub fn announce_table(&self, keyspace: &str, table: &str) {
        let created = Announcement::TableCreated { keyspace, table };
        self.announcements.publish(created);
    }

    /// Subscribes to all announcements: new tables, and snapshots that expire. The catalog calls
    /// `subscriber` on the thread of the change, under locks; so `subscriber` must neither block nor call
    /// the catalog or its database.
    pub fn on_announcement(&self, subscriber: impl Fn(Announcement<'_>) + Send + Sync + 'static) {
        self.announcements.subscribe(Box::new(subscriber));
    }

    /// Removes all rows of a table. Snapshots that cover the table keep them.
    ///
    /// # Errors
    /// If the store fails, or `table` was dropped. Another table that has its name by now keeps its rows.
    pub fn truncate(&self, table: &CqlTable) -> Result<()> {
        // Not during an ALTER: this write would undo the change of the record.
        self.exclusively(|state| {
            // If the table was dropped since the caller looked it up, the store refuses the write.
            let now = state.current(table).map_or(table, |now| &**now);
            self.store.truncate(now.rows(), &now.schema().encode())
        })
    }

    /// Runs `work` under the lock that serializes two kinds of work: changes of the schema, and the
    /// creation, renewal and deletion of snapshots by statements and requests.
    pub fn exclusively<T>(&self, work: impl FnOnce(&CatalogState) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        work(&self.state())
    }
}
