//! The names of tables that the manifest does not list.
//!
//! They are found in the properties of SSTables, in snapshots of one table, and in entries that a
//! merge operator [recognizes](crate::MergeOperator::table_of). Several tables may have had the
//! same name, one after the other: the newest of them gets it.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::TableId;

/// A keyspace and the name of a table in it.
pub(super) type TableName = (String, String);

/// The tables that the manifest does not name, and the names of tables that were found in SSTables,
/// snapshots and the log. Some of these names are of tables that the manifest names, too.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    unnamed: BTreeSet<TableId>,
    found: BTreeMap<TableId, TableName>,
}

/// The result of [`TableNames::assign`]. In both lists, the newest table comes first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AssignedNames {
    pub(super) named: Vec<(TableId, TableName)>,
    /// The tables that stay without a name. Each has the name that was found for it, but that
    /// another table has now; `None` if no name was found for the table.
    pub(super) unnamed: Vec<(TableId, Option<TableName>)>,
}

impl TableNames {
    /// Adds a table that the manifest does not name.
    pub(super) fn lack(&mut self, table: TableId) {
        self.unnamed.insert(table);
    }

    /// Returns whether the manifest does not name the table.
    pub(super) fn lacks(&self, table: TableId) -> bool {
        self.unnamed.contains(&table)
    }

    /// Returns the tables that the manifest does not name, and for which no name was found so far.
    pub(super) fn unknown(&self) -> Vec<TableId> {
        let unnamed = self.unnamed.iter().copied();
        unnamed
            .filter(|table| !self.found.contains_key(table))
            .collect()
    }

    /// Records a name that was found for a table, unless one is recorded already: the name of a
    /// table never changes.
    pub(super) fn note(&mut self, table: TableId, keyspace: &str, name: &str) {
        let found = self.found.entry(table);
        found.or_insert_with(|| (keyspace.to_string(), name.to_string()));
    }

    /// Gives each table that the manifest does not name the name that was noted for it, unless the
    /// name is in `taken`. If several tables had the same name, the newest gets it.
    pub(super) fn assign(self, mut taken: BTreeSet<TableName>) -> AssignedNames {
        let Self { unnamed, mut found } = self;
        let mut assigned = AssignedNames::default();
        for table in unnamed.into_iter().rev() {
            match found.remove(&table) {
                Some(name) if taken.insert(name.clone()) => assigned.named.push((table, name)),
                name => assigned.unnamed.push((table, name)),
            }
        }
        assigned
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
        assert_eq!(names.unknown(), [TableId(8)]);
        let expected = AssignedNames {
            named: vec![(TableId(5), name("t")), (TableId(3), name("u"))],
            unnamed: vec![
                (TableId(8), None),
                (TableId(6), Some(name("listed"))),
                (TableId(2), Some(name("t"))),
            ],
        };
        assert_eq!(names.assign([name("listed")].into()), expected);
    }
}
