//! The current roles, and the single place where they change.
//!
//! ```text
//! ebb_system.roles   name -> record
//! ```
//!
//! The snapshots of roles have records of their own: see `owned_snapshots`.
//!
//! A change is one commit, durable before it is visible. Each state has a generation number. A holder
//! of a cached decision compares the number to check that the decision is still valid.
//!
//! A role whose record is unreadable is out of service, and no other role is: the role cannot log in, no
//! other role takes its name, and only DROP ROLE removes the record.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use ebb_model::access::{Granted, OwnedSnapshot, Resource, Role, Roles};
use ebb_model::schema::{Schema, SchemaError, Unreadable};
use ebb_storage::{Db, ErrorKind, Table, WriteBatch, WriteOptions};

use super::damage::readable;
use super::error::{CatalogError, Result};
use super::owned_snapshots::OwnedSnapshots;
use super::survey::may_come_back;
use crate::names::{SYSTEM_KEYSPACE, is_reserved};

/// The table of the roles' records, in [`SYSTEM_KEYSPACE`](crate::names::SYSTEM_KEYSPACE).
pub(super) const ROLES_TABLE: &str = "roles";

/// The roles of an open database.
#[derive(Debug)]
pub struct RoleStore {
    pub(super) db: Db,
    records: Table,
    pub(super) owned: OwnedSnapshots,
    state: ArcSwap<RolesState>,
    generation: AtomicU64,
    /// Locked while the roles change.
    changing: Mutex<()>,
    /// Locked while a role creates a snapshot. A thread that needs both locks must take this one
    /// before `changing`.
    pub(super) creating_snapshots: Mutex<()>,
}

/// The roles whose records cannot be read.
#[derive(Debug, Clone, Default)]
struct UnreadableRoles {
    /// The unreadable records by the names of their roles. In names that are not UTF-8, bytes are
    /// replaced by U+FFFD.
    named: BTreeMap<Arc<str>, UnreadableRecords>,
    /// The reason why some names of roles cannot be read; `None` if all can.
    hidden: Option<Arc<str>>,
}

/// The unreadable records that are shown under one name. There are several if their keys differ
/// only in bytes that are not UTF-8, because U+FFFD is shown for these.
#[derive(Debug, Clone)]
struct UnreadableRecords {
    /// The reason why the first of these records, in the order of the keys, cannot be read.
    why: Arc<str>,
    keys: Vec<Bytes>,
}

impl UnreadableRoles {
    fn add(&mut self, key: Bytes, name: Arc<str>, why: String) {
        let records = self.named.entry(name).or_insert_with(|| UnreadableRecords {
            why: why.into(),
            keys: Vec::new(),
        });
        records.keys.push(key);
    }

    /// Returns the description of the unreadable role that is shown as `name`; `None` if there is none.
    fn of(&self, name: &str) -> Option<Unreadable> {
        let records = self.named.get(name)?;
        Some(Unreadable::role(SYSTEM_KEYSPACE, Some(name), &records.why))
    }

    fn hidden(&self) -> Option<Unreadable> {
        let why = self.hidden.as_ref()?;
        Some(Unreadable::role(SYSTEM_KEYSPACE, None, why))
    }

    fn all(&self) -> Vec<Unreadable> {
        let named = self.named.keys().filter_map(|name| self.of(name));
        named.chain(self.hidden()).collect()
    }
}

/// The roles, readable or not, as their records contain them.
#[derive(Debug, Default)]
struct StoredRoles {
    roles: Roles,
    unreadable: UnreadableRoles,
    /// The snapshots that a role's own record lists, by the name of the role. Only records that an
    /// earlier version of ebb wrote have such a list.
    listed: Vec<(Arc<str>, Vec<OwnedSnapshot>)>,
}

/// Reads the records of roles, and separates the unreadable ones.
///
/// # Errors
/// If the store failed for another reason than damage.
fn read(records: &Table) -> Result<StoredRoles> {
    let mut roles = Vec::new();
    let mut unreadable = UnreadableRoles::default();
    let mut listed = Vec::new();
    for entry in records.range::<&[u8], _>(..) {
        let (key, value) = match readable(entry)? {
            Ok(entry) => entry,
            Err(damage) => {
                unreadable.hidden = Some(damage.into());
                break;
            }
        };
        let name: Arc<str> = String::from_utf8_lossy(&key).into();
        let role = match std::str::from_utf8(&key) {
            Ok(_) => Role::decode(&value).map_err(|error| error.reason()),
            Err(_) => Err("its name is not UTF-8".to_owned()),
        };
        match role {
            Ok((role, snapshots)) => {
                if !snapshots.is_empty() {
                    listed.push((name.clone(), snapshots));
                }
                roles.push((name, role));
            }
            Err(why) => unreadable.add(key, name, why),
        }
    }
    Ok(StoredRoles {
        roles: roles.into_iter().collect(),
        unreadable,
        listed,
    })
}

/// Lists the unreadable roles.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn unreadable_roles(records: &Table) -> Result<Vec<Unreadable>> {
    Ok(read(records)?.unreadable.all())
}

/// The roles at one moment.
#[derive(Debug, Default)]
pub struct RolesState {
    generation: u64,
    roles: Roles,
    unreadable: UnreadableRoles,
    /// A cache of the results of [`granted`](Self::granted).
    granted: Mutex<HashMap<String, Arc<Granted>>>,
}

impl RolesState {
    /// Returns the generation number of this state. Later states have greater numbers.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the readable roles.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Returns the error for the unreadable role that is shown as `name`: U+FFFD replaces bytes of
    /// its name that are not UTF-8. Returns `None` if there is no such role, or if a readable role has
    /// exactly the name `name`.
    pub fn unreadable(&self, name: &str) -> Option<SchemaError> {
        let is_read = self.roles.get(name).is_some();
        let unreadable = self.unreadable.of(name).filter(|_| !is_read);
        unreadable.map(SchemaError::from)
    }

    /// Returns whether a role is or may be a superuser, itself or by the roles granted to it. An unreadable
    /// role may be one, because its record may be restored.
    pub fn may_be_superuser(&self, name: &str) -> bool {
        let is_hidden = |role: &str| {
            let role = self.roles.get(role);
            let mut granted = role.iter().flat_map(|role| &role.member_of);
            granted.any(|granted| self.hides(granted))
        };
        self.hides(name)
            || self.roles.is_superuser(name)
            || self.roles.of(name, false).into_iter().any(is_hidden)
    }

    /// Returns whether an unreadable role has, or may have, this name. It may have the name if some
    /// names of roles cannot be read. Returns false if a readable role has the name.
    pub fn hides(&self, name: &str) -> bool {
        let is_known = self.roles.get(name).is_some();
        !is_known && (self.unreadable.of(name).is_some() || self.unreadable.hidden.is_some())
    }

    pub fn all_unreadable(&self) -> Vec<Unreadable> {
        self.unreadable.all()
    }

    /// Returns an unreadable role that conflicts with the change of the role `name` to `role`;
    /// `None` if there is none. If the change creates a role, an unreadable role conflicts if it
    /// has, or may have, the name `name`. If the change adds an identity, each unreadable role
    /// conflicts, because it may have the identity. The drop of a role (`role` is `None`) has no
    /// conflicts.
    fn unreadable_owner(&self, name: &str, role: Option<&Role>) -> Option<Unreadable> {
        let before = self.roles.get(name);
        if before.is_none()
            && let Some(taken) = self
                .unreadable
                .of(name)
                .or_else(|| self.unreadable.hidden())
        {
            return Some(taken);
        }
        let is_new =
            |identity: &String| before.is_none_or(|before| !before.identities.contains(identity));
        // The identities of an unreadable role are unknown.
        if role.is_some_and(|role| role.identities.iter().any(is_new)) {
            return self.unreadable.all().into_iter().next();
        }
        None
    }

    /// Returns the effective permissions of a role; `None` if there is no readable role of this name.
    /// The result is cached until the roles change.
    pub fn granted(&self, name: &str) -> Option<Arc<Granted>> {
        let mut known = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(granted) = known.get(name) {
            return Some(granted.clone());
        }
        let granted = Arc::new(self.roles.granted(name)?);
        known.insert(name.to_owned(), granted.clone());
        Some(granted)
    }
}

/// A method of the database that commits a batch: [`Db::write_with`] or [`Db::write_freeing`].
type Commit = fn(&Db, WriteBatch, WriteOptions) -> ebb_storage::Result<()>;

impl RoleStore {
    /// Reads the roles of a database from `records`. Removes permissions on objects that do not exist (a
    /// crash after the drop of an object, or a full disk, may have left them), and the records in `owned`
    /// of snapshots that no longer exist.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn open(
        db: &Db,
        records: Table,
        owned: OwnedSnapshots,
        schema: &Schema,
    ) -> Result<Self> {
        let StoredRoles {
            roles,
            unreadable,
            listed,
        } = read(&records)?;
        let state = RolesState {
            roles,
            unreadable,
            ..RolesState::default()
        };
        let store = Self {
            db: db.clone(),
            records,
            owned,
            state: ArcSwap::from_pointee(state),
            generation: AtomicU64::new(0),
            changing: Mutex::new(()),
            creating_snapshots: Mutex::new(()),
        };
        store.tidy_snapshots(store.state().roles(), listed)?;
        store.retain(schema)?;
        Ok(store)
    }

    /// Checks the stored records of all readable roles. Writes a record again if the next opening
    /// could not read from it the role that is in memory, or if `is_at_risk` returns true for the
    /// table of the records. One commit contains all records that are written. The commit may use the
    /// space that is reserved for a full disk. The records of unreadable roles stay unchanged. A
    /// record whose read fails for any reason is written again: the role in memory is never older.
    ///
    /// # Errors
    /// If the write fails.
    pub(super) fn write_again(&self, is_at_risk: &dyn Fn(&Table) -> bool) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let all = is_at_risk(&self.records);
        let mut batch = WriteBatch::new();
        for (name, role) in self.state().roles.iter() {
            let record = role.encode();
            if all || !self.has_record(name, role, &record) {
                batch.put(&self.records, name.as_bytes(), &record);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        Ok(self.db.write_freeing(batch, WriteOptions { sync: true })?)
    }

    /// Returns whether the stored record of `name` is `record`, or has other bytes but decodes to
    /// `role`, as a record of an earlier version may.
    fn has_record(&self, name: &str, role: &Role, record: &[u8]) -> bool {
        let Ok(Some(stored)) = self.records.get(name.as_bytes()) else {
            return false;
        };
        let is_read = |stored: &[u8]| Role::decode(stored).is_ok_and(|(read, _)| read == *role);
        *stored == *record || is_read(&stored)
    }

    /// Reads the unreadable roles again, and the records of the snapshots that roles created. Roles
    /// that were readable before stay unchanged.
    ///
    /// # Errors
    /// If the store failed. If only a write failed, the roles that have become readable can be used
    /// all the same, with one exception: if the record of one of them lists snapshots, as earlier
    /// versions wrote it, all of them stay unreadable. The records of the listed snapshots must be
    /// written first, because a change of such a role writes its record without the list.
    pub(super) fn reread(&self) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.owned.reread()?;
        let now = self.state();
        let before = now.all_unreadable();
        if before.is_empty() {
            return Ok(());
        }
        let StoredRoles {
            roles,
            unreadable,
            mut listed,
        } = read(&self.records)?;
        if unreadable.all() == before {
            return Ok(());
        }
        listed.retain(|(name, _)| now.roles.get(name).is_none());
        let next = now.roles.joined(roles);
        let has_listed = !listed.is_empty();
        let tidied = self.tidy_snapshots(&next, listed);
        // If the lists could not be written, no role comes into service: a change of a role would write its
        // record without its list.
        if tidied.is_ok() || !has_listed {
            self.publish(&now, next, unreadable);
        }
        tidied
    }

    /// Moves the lists of snapshots from the records of roles into records of their own. `listed`
    /// contains these lists, each with the name of its role. Writes a record for each listed
    /// snapshot that exists, and the records of these roles without the lists. Also removes the
    /// records of snapshots that no longer exist. All this is one commit. A full disk is no error
    /// if `listed` is empty.
    fn tidy_snapshots(
        &self,
        roles: &Roles,
        listed: Vec<(Arc<str>, Vec<OwnedSnapshot>)>,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        let has_listed = !listed.is_empty();
        for (name, snapshots) in listed {
            if let Some(role) = roles.get(&name) {
                let owned = &self.owned;
                owned.put_existing(&self.db, &mut batch, role.id, snapshots);
                batch.put(&self.records, name.as_bytes(), &role.encode());
            }
        }
        self.owned.remove_gone(&self.db, &mut batch);
        if batch.is_empty() {
            return Ok(());
        }
        // The write may use reserved space: a full disk must not keep a database from being opened.
        let written = self.db.write_freeing(batch, WriteOptions { sync: true });
        if has_listed {
            // The next change of such a role writes its record without the list, which would be lost.
            return Ok(written?);
        }
        unless_full(written.map_err(CatalogError::from))
    }

    /// Returns the current roles.
    pub fn state(&self) -> Arc<RolesState> {
        self.state.load_full()
    }

    /// Returns the generation number of the current state. This costs a single atomic load, so
    /// callers may check the number for each request.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Runs `work` on the current roles. No change of the roles is in progress meanwhile.
    pub(super) fn unchanged<T>(&self, work: impl FnOnce(&RolesState) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        work(&self.state())
    }

    /// Changes the roles: `decide` gets the current roles and returns the next roles, or `None` for no
    /// change. The next roles are durable and in effect before this returns. Returns whether the next roles
    /// differ from the current ones.
    ///
    /// Permissions on an earlier role of the same name do not apply to a new role, except for those in
    /// the records of unreadable roles: these apply once the records are readable.
    ///
    /// # Errors
    /// The inner error is that of `decide`: nothing is changed. The outer error is
    /// [`CatalogError::Schema`] if an unreadable role has, or may have, the name of a role that the change
    /// creates or an identity that it adds to a role: nothing is changed either. Any other outer error is one
    /// of the store: the next opening may or may not find the change.
    pub fn change<E>(
        &self,
        decide: impl FnOnce(&Roles) -> Result<Option<Roles>, E>,
    ) -> Result<Result<bool, E>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.state();
        let next = match decide(&now.roles) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(Ok(false)),
            Err(refused) => return Ok(Err(refused)),
        };
        let difference = now.roles.difference(&next);
        if difference.is_empty() {
            return Ok(Ok(false));
        }
        for (name, role) in difference {
            if let Some(taken) = now.unreadable_owner(&name, role) {
                return Err(SchemaError::from(taken).into());
            }
        }
        self.write(&now, next, None, Db::write_with)?;
        Ok(Ok(true))
    }

    /// Drops the unreadable role that is shown as `name`: removes its record, the memberships of
    /// other roles in it, and permissions on it. Returns false, and does nothing, if there is no
    /// such role or a readable role has this name.
    ///
    /// # Errors
    /// If the store fails: the next opening may or may not find the role.
    pub fn drop_unreadable(&self, name: &str) -> Result<bool> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.state();
        if now.unreadable(name).is_none() {
            return Ok(false);
        }
        let next = now.roles.without_mentions(name);
        self.write(&now, next, Some(name), Db::write_with)?;
        Ok(true)
    }

    /// Replaces the roles by `next`, and removes the record of the unreadable role `dropped`. `commit` is
    /// the method of [`Db`] that commits the change.
    fn write(
        &self,
        now: &RolesState,
        next: Roles,
        dropped: Option<&str>,
        commit: Commit,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        let mut dropped_ids = Vec::new();
        for (name, role) in now.roles.difference(&next) {
            let before = now.roles.get(&name).map(|before| before.id);
            if let Some(id) = before.filter(|id| role.is_none_or(|role| role.id != *id)) {
                self.owned.remove_role(&mut batch, id);
                dropped_ids.push(id);
            }
            match role {
                Some(role) => batch.put(&self.records, name.as_bytes(), &role.encode()),
                None => batch.delete(&self.records, name.as_bytes()),
            }
        }
        let mut unreadable = now.unreadable.clone();
        if let Some(name) = dropped {
            let records = unreadable.named.remove(name);
            for key in records.iter().flat_map(|records| &records.keys) {
                batch.delete(&self.records, key);
            }
        }
        commit(&self.db, batch, WriteOptions { sync: true })?;
        for id in dropped_ids {
            self.owned.forget_role(id);
        }
        self.publish(now, next, unreadable);
        Ok(())
    }

    /// Makes `roles` and `unreadable` the current state, with the generation number after that of `now`.
    fn publish(&self, now: &RolesState, roles: Roles, unreadable: UnreadableRoles) {
        let generation = now.generation + 1;
        self.state.store(Arc::new(RolesState {
            generation,
            roles,
            unreadable,
            granted: Mutex::default(),
        }));
        // The number is stored after the state, so that a thread that reads the number also gets the state.
        self.generation.store(generation, Ordering::Release);
    }

    /// Removes permissions of readable roles on keyspaces, tables and roles that do not exist. Permissions on
    /// a keyspace that the schema lacks only because its record cannot be read stay: see [`may_come_back`].
    /// The write may use the space that is reserved for a full disk. If even that does not suffice, the
    /// permissions stay until a later call. They never apply to a new object of the same name:
    /// [`RoleStore::retain_before_creation`] removes permissions on a keyspace or table before a new one
    /// gets its name, and the creation of a role removes permissions on an earlier role of its name.
    ///
    /// # Errors
    /// If the store failed for another reason than a full disk.
    pub(super) fn retain(&self, schema: &Schema) -> Result<()> {
        let stays = |on: &Resource| match on {
            // A failure of the store is no reason to remove permissions.
            Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) => {
                may_come_back(&self.db, keyspace).unwrap_or(true)
            }
            // A keyspace with tables of CQL is in the schema, readable or not.
            _ => false,
        };
        unless_full(self.retain_if(|state, on| is_there(schema, state, on) || stays(on)))
    }

    /// Removes permissions on keyspaces and tables that `next` has and `now` does not have. They were
    /// granted on dropped objects, and must not apply to new ones of the same names.
    ///
    /// # Errors
    /// If the store fails, also on a full disk.
    pub(super) fn retain_before_creation(&self, now: &Schema, next: &Schema) -> Result<()> {
        self.retain_if(|state, on| is_there(now, state, on) || !is_there(next, state, on))
    }

    /// Removes the permissions on objects for which `is_kept` returns false.
    fn retain_if(&self, is_kept: impl Fn(&RolesState, &Resource) -> bool) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.state();
        match now.roles.retained(|on| is_kept(&now, on)) {
            Some(next) => self.write(&now, next, None, Db::write_freeing),
            None => Ok(()),
        }
    }
}

/// Turns the error of a full disk into success, and returns every other result unchanged. Used for
/// writes that only remove obsolete data: permissions on dropped objects, and records of deleted
/// snapshots. A full disk must prevent neither the opening of a database nor the drop of an object,
/// and a later opening removes the obsolete data.
fn unless_full(written: Result<()>) -> Result<()> {
    match written {
        Err(CatalogError::Store(error)) if error.kind() == ErrorKind::DiskFull => Ok(()),
        written => written,
    }
}

/// Returns whether a keyspace, table or role exists, readable or not. Returns true for every
/// [reserved](is_reserved) keyspace and every table in it, for every table of an unreadable keyspace, and, if
/// names of roles are unreadable, for every role.
fn is_there(schema: &Schema, state: &RolesState, on: &Resource) -> bool {
    match on {
        Resource::AllKeyspaces | Resource::AllRoles => true,
        Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) => {
            is_reserved(keyspace) || schema.has_keyspace(keyspace)
        }
        Resource::Table(keyspace, table) => {
            is_reserved(keyspace) || schema.has_table(keyspace, table)
        }
        Resource::Role(role) => {
            let unreadable = &state.unreadable;
            let is_unreadable = unreadable.named.contains_key(&**role);
            state.roles.get(role).is_some() || is_unreadable || unreadable.hidden.is_some()
        }
    }
}
