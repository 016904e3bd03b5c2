//! The rows of a virtual table that a statement reads.

use std::collections::{BTreeMap, BTreeSet};

/// The keyspaces and tables whose rows a SELECT reads from a virtual table, as far as its WHERE
/// clause restricts them. A virtual table may also compute other rows, because the statement
/// filters them in any case.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The values of the column `keyspace_name` that the statement permits; `None` for all.
    pub keyspaces: Option<BTreeSet<String>>,
    /// The values of the column `table_name` that the statement permits; `None` for all.
    pub tables: Option<BTreeSet<String>>,
    /// The names in `keyspaces` that are snapshots, which `system_schema` shows as keyspaces, each
    /// with the names of its keyspace and of the snapshot.
    pub snapshots: BTreeMap<String, (String, String)>,
}

impl Lookup {
    /// Whether the statement reads rows of this keyspace.
    pub fn has_keyspace(&self, name: &str) -> bool {
        let names = self.keyspaces.as_ref();
        names.is_none_or(|names| names.contains(name))
    }

    /// Whether the statement reads rows of tables with this name.
    pub fn has_table(&self, name: &str) -> bool {
        let names = self.tables.as_ref();
        names.is_none_or(|names| names.contains(name))
    }
}
