//! The tables that a snapshot covers: one list for all snapshots that cover the same tables.
//!
//! Thousands of snapshots of a keyspace with hundreds of tables mostly have the same list. A list
//! for each of them would take most of the memory of the database, and copies of the bookmarks
//! would take long.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::key::TableId;

/// The names, as of the snapshot, and the ids of tables.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotTables(Arc<Tables>);

#[derive(Debug)]
struct Tables {
    list: Vec<(String, TableId)>,
    /// Ascending.
    ids: Vec<TableId>,
    /// The hash of the list: different lists are told apart by it at once.
    hash: u64,
}

impl SnapshotTables {
    /// Whether a table is among them.
    pub(crate) fn contains(&self, table: TableId) -> bool {
        self.0.ids.binary_search(&table).is_ok()
    }

    /// Whether both share one list.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Vec<(String, TableId)>> for SnapshotTables {
    fn from(list: Vec<(String, TableId)>) -> Self {
        let mut ids: Vec<_> = list.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        let mut hasher = DefaultHasher::new();
        list.hash(&mut hasher);
        Self(Arc::new(Tables {
            ids,
            hash: hasher.finish(),
            list,
        }))
    }
}

impl FromIterator<(String, TableId)> for SnapshotTables {
    fn from_iter<I: IntoIterator<Item = (String, TableId)>>(tables: I) -> Self {
        Vec::from_iter(tables).into()
    }
}

impl Deref for SnapshotTables {
    type Target = [(String, TableId)];

    fn deref(&self) -> &Self::Target {
        &self.0.list
    }
}

impl PartialEq for SnapshotTables {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.0.hash == other.0.hash && self.0.list == other.0.list
    }
}

impl Eq for SnapshotTables {}

impl Serialize for SnapshotTables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.list.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SnapshotTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
