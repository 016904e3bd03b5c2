//! The roles as they are now, and the one place where they change.
//!
//! ```text
//! ebb_system.roles   name -> record
//! ```
//!
//! A change is one commit, durable before anybody sees it. Each has a number: whoever has
//! decided something looks whether it is still the same one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use ebb_catalog::access::{Granted, Resource, Role, Roles};
use ebb_catalog::schema::Schema;
use ebb_storage::{Db, Table, WriteBatch, WriteOptions};

use super::error::{CatalogError, Result};

/// Where the records of roles are, in [`SYSTEM_KEYSPACE`](crate::names::SYSTEM_KEYSPACE).
pub(super) const ROLES_TABLE: &str = "roles";

/// The roles of an open database.
#[derive(Debug)]
pub struct RoleStore {
    pub(super) db: Db,
    records: Table,
    state: ArcSwap<RolesState>,
    generation: AtomicU64,
    /// Held while they change.
    changing: Mutex<()>,
    /// Held while a role creates a snapshot.
    pub(super) creating_snapshots: Mutex<()>,
}

/// The roles at one moment.
#[derive(Debug, Default)]
pub struct RolesState {
    generation: u64,
    roles: Roles,
    /// What was asked for of [`granted`](Self::granted).
    granted: Mutex<HashMap<String, Arc<Granted>>>,
}

impl RolesState {
    /// Which change made it; each has a greater number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All roles.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// What a role may do; `None` where there is none of this name. Computed once.
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

impl RoleStore {
    /// Those of a database. Permissions on what is not in `schema` go: a crash came between
    /// them and what they were on.
    ///
    /// # Errors
    /// When the store fails, or a record is damaged.
    pub(super) fn open(db: &Db, records: Table, schema: &Schema) -> Result<Self> {
        let mut all = Vec::new();
        for entry in records.range::<&[u8], _>(..) {
            let (key, value) = entry?;
            let corrupt = |detail: String| CatalogError::Corrupt {
                what: format!(
                    "the record of role {:?} in ebb_system.roles",
                    String::from_utf8_lossy(&key)
                ),
                detail,
            };
            let name = std::str::from_utf8(&key);
            let name = name.map_err(|_| corrupt("its name is no UTF-8".to_owned()))?;
            let role = Role::decode(&value).map_err(|error| corrupt(error.to_string()))?;
            all.push((Arc::from(name), role));
        }
        let state = RolesState {
            roles: all.into_iter().collect(),
            ..RolesState::default()
        };
        let store = Self {
            db: db.clone(),
            records,
            state: ArcSwap::from_pointee(state),
            generation: AtomicU64::new(0),
            changing: Mutex::new(()),
            creating_snapshots: Mutex::new(()),
        };
        store.retain(schema)?;
        Ok(store)
    }

    /// The roles as they are now.
    pub fn state(&self) -> Arc<RolesState> {
        self.state.load_full()
    }

    /// The number of the last change: one read of memory, for whoever asks often.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Changes the roles: `decide` says of the present ones what comes next, or nothing. The
    /// next ones are durable, and count for all, before this returns; whether there are any is
    /// the answer.
    ///
    /// # Errors
    /// Inside, what `decide` says: nothing is changed. Outside, as the store: the change may
    /// be found after the next opening.
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
        let mut batch = WriteBatch::new();
        let difference = now.roles.difference(&next);
        if difference.is_empty() {
            return Ok(Ok(false));
        }
        for (name, role) in difference {
            match role {
                Some(role) => batch.put(&self.records, name.as_bytes(), &role.encode()),
                None => batch.delete(&self.records, name.as_bytes()),
            }
        }
        self.db.write_with(batch, WriteOptions { sync: true })?;
        let generation = now.generation + 1;
        self.state.store(Arc::new(RolesState {
            generation,
            roles: next,
            granted: Mutex::default(),
        }));
        // Behind the state: whoever sees the number finds the state.
        self.generation.store(generation, Ordering::Release);
        Ok(Ok(true))
    }

    /// Removes permissions on keyspaces, tables and roles that are gone.
    ///
    /// # Errors
    /// As the store.
    pub(super) fn retain(&self, schema: &Schema) -> Result<()> {
        let changed = self.change(|roles| {
            let is_there = |on: &Resource| is_there(schema, roles, on);
            Ok::<_, std::convert::Infallible>(roles.retained(is_there))
        })?;
        match changed {
            Ok(_) => Ok(()),
            Err(never) => match never {},
        }
    }
}

/// Whether there is such a keyspace, table or role. Those of the system always count as there, and
/// so do keyspaces and tables that cannot be read.
fn is_there(schema: &Schema, roles: &Roles, on: &Resource) -> bool {
    match on {
        Resource::AllKeyspaces | Resource::AllRoles => true,
        Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) => {
            keyspace.starts_with("system") || schema.has_keyspace(keyspace)
        }
        Resource::Table(keyspace, table) => {
            keyspace.starts_with("system") || schema.has_table(keyspace, table)
        }
        Resource::Role(role) => roles.get(role).is_some(),
    }
}
