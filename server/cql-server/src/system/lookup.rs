//! The rows of a virtual table that a statement reads.

use std::collections::{BTreeMap, BTreeSet};

/// The keyspaces and tables whose rows a SELECT reads from a virtual table, as far as its WHERE
/// clause names them. A virtual table may ignore it: the statement filters the rows in any case.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The values that the column `keyspace_name` may have; `None` for all.
    pub keyspaces: Option<BTreeSet<String>>,
    /// The values that the column `table_name` may have; `None` for all.
    pub tables: Option<BTreeSet<String>>,
    /// By name, those of `keyspaces` that are snapshots: the keyspace, and its snapshot.
    pub snapshots: BTreeMap<String, (String, String)>,
}

impl Lookup {
    /// Returns whether the statement reads rows of this keyspace.
    pub fn has_keyspace(&self, name: &str) -> bool {
        let names = self.keyspaces.as_ref();
        names.is_none_or(|names| names.contains(name))
    }

    /// Returns whether the statement reads rows of tables with this name.
    pub fn has_table(&self, name: &str) -> bool {
        let names = self.tables.as_ref();
        names.is_none_or(|names| names.contains(name))
    }
}
