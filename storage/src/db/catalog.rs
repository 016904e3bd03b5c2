//! Which keyspaces and tables there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TableCore;
use crate::error::{Error, Result};
use crate::version::TableId;

/// The keyspaces and tables by name. Changes are in the manifest before they
/// are in here.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    keyspaces: BTreeMap<String, BTreeMap<String, Arc<TableCore>>>,
}

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;

impl Catalog {
    pub(crate) fn add_keyspace(&mut self, name: &str) {
        self.keyspaces.entry(name.to_string()).or_default();
    }

    pub(crate) fn add_table(&mut self, table: Arc<TableCore>) {
        self.keyspaces
            .entry(table.keyspace.clone())
            .or_default()
            .insert(table.name.clone(), table);
    }

    pub(crate) fn has_keyspace(&self, name: &str) -> bool {
        self.keyspaces.contains_key(name)
    }

    pub(crate) fn keyspace_names(&self) -> Vec<String> {
        self.keyspaces.keys().cloned().collect()
    }

    /// The tables of a keyspace, by name.
    pub(crate) fn tables_of(&self, keyspace: &str) -> Vec<Arc<TableCore>> {
        self.keyspaces
            .get(keyspace)
            .map(|tables| tables.values().cloned().collect())
            .unwrap_or_default()
    }

    pub(crate) fn table(&self, keyspace: &str, name: &str) -> Option<Arc<TableCore>> {
        self.keyspaces.get(keyspace)?.get(name).cloned()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableCore>> {
        self.keyspaces.values().flat_map(BTreeMap::values)
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<TableCore>> {
        self.tables().find(|table| table.id == id)
    }
}

/// Refuses names that could not stand in `KEYSPACE.TABLE` on a command line.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<()> {
    let legal = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(legal) {
        return Err(Error::InvalidRequest(format!(
            "{name:?} cannot name a {what}: letters, digits, '_' and '-', 1 to {NAME_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}
