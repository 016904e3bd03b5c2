//! The names of tables that the manifest does not list.
//!
//! Files have them, and snapshots of one table. A name may have been that of several tables, one after
//! the other: the newest of them gets it.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::TableId;

/// A keyspace and the name of a table in it.
pub(super) type TableName = (String, String);

/// The tables without a name, and the names in files and snapshots.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    unnamed: BTreeSet<TableId>,
    found: BTreeMap<TableId, TableName>,
}

impl TableNames {
    /// Notes that the manifest does not name a table.
    pub(super) fn lack(&mut self, table: TableId) {
        self.unnamed.insert(table);
    }

    /// Returns whether the manifest does not name a table.
    pub(super) fn lacks(&self, table: TableId) -> bool {
        self.unnamed.contains(&table)
    }

    /// Notes the name that a file or a snapshot has for a table. No table ever gets another one.
    pub(super) fn note(&mut self, table: TableId, keyspace: &str, name: &str) {
        let found = self.found.entry(table);
        found.or_insert_with(|| (keyspace.to_string(), name.to_string()));
    }

    /// Returns the noted names of tables that have none, except `taken` ones. If several
    /// tables had a name, the newest gets it.
    pub(super) fn assign(self, mut taken: BTreeSet<TableName>) -> Vec<(TableId, TableName)> {
        let Self { unnamed, found } = self;
        let newest_first = found.into_iter().rev();
        let of_unnamed = newest_first.filter(|(table, _)| unnamed.contains(table));
        of_unnamed
            .filter(|(_, name)| taken.insert(name.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_table_gets_a_name_that_several_had() {
        let mut names = TableNames::default();
        for table in [2, 3, 5, 6, 8] {
            names.lack(TableId(table));
        }
        for (table, name) in [(1, "listed"), (2, "t"), (5, "t"), (3, "u"), (6, "listed")] {
            names.note(TableId(table), "app", name);
        }
        // A snapshot of another table.
        names.note(TableId(5), "app", "v");
        let name = |name: &str| ("app".to_string(), name.to_string());
        assert_eq!(
            names.assign([name("listed")].into()),
            [(TableId(5), name("t")), (TableId(3), name("u"))]
        );
    }
}
