//! The rows of a virtual table that a statement reads.

use std::collections::{BTreeMap, BTreeSet};

/// The rows of a virtual table that a SELECT needs: those of the keyspaces and tables that its
/// WHERE clause names, as far as they belong to the page that it reads. A virtual table may also
/// compute other rows, because the statement filters all of them.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The values of the column `keyspace_name` that the statement permits; `None` for all.
    pub keyspaces: Option<BTreeSet<String>>,
    /// The values of the column `table_name` that the statement permits; `None` for all.
    pub tables: Option<BTreeSet<String>>,
    /// The snapshots among the names in `keyspaces`, since `system_schema` shows snapshots as
    /// keyspaces: for each such name, the names of the snapshot's keyspace and of the snapshot.
    pub snapshots: BTreeMap<String, (String, String)>,
    /// The rows that the page needs.
    pub page: PageRows,
}

/// The rows of a virtual table that one page of a result needs. By default these are all rows.
///
/// A driver reads a table about the schema in pages of some thousand rows. If each page computed
/// all rows, the time of all pages would grow with the square of the number of tables.
#[derive(Debug, Default)]
pub struct PageRows {
    /// The key of the last row that the previous page read. The page needs no row up to this key;
    /// `None` for the first page.
    pub after: Option<Vec<u8>>,
    /// The number of rows that the page reads at most, from `after` on in the order of their keys;
    /// `None` if the number is not known before the read.
    pub rows_max: Option<usize>,
}

impl PageRows {
    /// Returns whether the row with this key lies before the page.
    pub fn is_before(&self, key: &[u8]) -> bool {
        self.after.as_ref().is_some_and(|after| key <= &after[..])
    }

    /// Returns whether all keys that begin with `prefix` lie before the page.
    pub fn are_all_before(&self, prefix: &[u8]) -> bool {
        let after = self.after.as_ref();
        after.is_some_and(|after| *prefix < after[..] && !after.starts_with(prefix))
    }
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
