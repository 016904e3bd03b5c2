//! The keyspaces and tables of a database.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TableCore;
use crate::error::{Error, Result};
use crate::key::TableId;
use crate::snapshots::Bookmark;

/// The keyspaces and tables by name. A change is recorded in the manifest before it is made here.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    keyspaces: BTreeMap<String, BTreeMap<String, Arc<TableCore>>>,
    /// Dropped tables that snapshots still show.
    dropped: BTreeMap<TableId, Arc<TableCore>>,
    /// Dropped tables that no snapshot shows, and that readers still use.
    forgotten: Vec<Arc<TableCore>>,
    /// The largest id that a table ever had.
    last_table_id: TableId,
}

/// The largest length of the name of a keyspace, a table or a snapshot, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

impl Catalog {
    pub(crate) fn add_keyspace(&mut self, name: &str) {
        self.keyspaces.entry(name.to_string()).or_default();
    }

    /// Prevents the ids up to `id` from being given to new tables.
    pub(super) fn raise_last_table_id(&mut self, id: TableId) {
        self.last_table_id = self.last_table_id.max(id);
    }

    /// Returns an id that no table ever had.
    pub(super) fn next_table_id(&self) -> TableId {
        TableId(self.last_table_id.0 + 1)
    }

    pub(crate) fn add_table(&mut self, table: Arc<TableCore>) {
        self.raise_last_table_id(table.id);
        if table.is_dropped() {
            self.dropped.insert(table.id, table);
            return;
        }
        self.keyspaces
            .entry(table.keyspace.clone())
            .or_default()
            .insert(table.name.clone(), table);
    }

    /// Takes a table out of its keyspace, and keeps it for the snapshots that
    /// cover it.
    pub(super) fn drop_table(&mut self, table: &Arc<TableCore>) {
        if let Some(tables) = self.keyspaces.get_mut(&table.keyspace) {
            tables.remove(&table.name);
        }
        self.dropped.insert(table.id, table.clone());
    }

    /// Removes a keyspace without tables.
    pub(super) fn drop_keyspace(&mut self, name: &str) {
        self.keyspaces.remove(name);
    }

    /// Stops keeping a dropped table for snapshots. The table is removed once no reader holds it.
    pub(super) fn forget_table(&mut self, id: TableId) {
        if let Some(table) = self.dropped.remove(&id) {
            self.forgotten.push(table);
        }
    }

    /// Removes and returns the dropped tables that neither a snapshot nor a reader needs.
    pub(super) fn take_unread(&mut self) -> Vec<Arc<TableCore>> {
        let unread = |table: &mut Arc<TableCore>| !table.is_held();
        self.forgotten.extract_if(.., unread).collect()
    }

    /// Returns the dropped tables that no snapshot shows, and that readers still use.
    pub(super) fn forgotten(&self) -> &[Arc<TableCore>] {
        &self.forgotten
    }

    /// Returns the dropped tables that are kept for snapshots.
    pub(super) fn dropped(&self) -> impl Iterator<Item = &Arc<TableCore>> {
        self.dropped.values()
    }

    /// Returns the tables that a snapshot covers, dropped ones too.
    pub(crate) fn covered_by<'a>(
        &'a self,
        snapshot: &'a Bookmark,
    ) -> impl Iterator<Item = &'a Arc<TableCore>> {
        let live = self.keyspaces.get(&snapshot.record.keyspace);
        let live = live.into_iter().flat_map(BTreeMap::values);
        let all = live.chain(self.dropped.values());
        all.filter(move |table| snapshot.covers(table.span()))
    }

    pub(crate) fn has_keyspace(&self, name: &str) -> bool {
        self.keyspaces.contains_key(name)
    }

    pub(crate) fn keyspace_names(&self) -> Vec<String> {
        self.keyspaces.keys().cloned().collect()
    }

    /// Returns the tables of a keyspace in the order of their names, without dropped ones. The list
    /// is empty if there is no such keyspace.
    pub(crate) fn tables_of(&self, keyspace: &str) -> Vec<Arc<TableCore>> {
        self.keyspaces
            .get(keyspace)
            .map(|tables| tables.values().cloned().collect())
            .unwrap_or_default()
    }

    pub(crate) fn table(&self, keyspace: &str, name: &str) -> Option<Arc<TableCore>> {
        self.keyspaces.get(keyspace)?.get(name).cloned()
    }

    /// Returns all tables, including the dropped ones that are kept for snapshots, but not those
    /// that only readers still use ([`Self::forgotten`]).
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableCore>> {
        let live = self.keyspaces.values().flat_map(BTreeMap::values);
        live.chain(self.dropped.values())
    }

    /// Returns the table of this id, also a dropped one that is kept for snapshots; `None` if there
    /// is none, or it was dropped and no snapshot covers it.
    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<TableCore>> {
        self.tables().find(|table| table.id == id)
    }
}

/// Returns an error unless `name` has 1 to [`NAME_BYTES_MAX`] bytes of letters, digits, '_' and
/// '-', so that names can be written as `KEYSPACE.TABLE` on a command line. `what` is the kind of
/// the named object, for the error.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<()> {
    let legal = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(legal) {
        return Err(Error::InvalidRequest(format!(
            "{name:?} cannot name a {what}: letters, digits, '_' and '-', 1 to {NAME_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}
