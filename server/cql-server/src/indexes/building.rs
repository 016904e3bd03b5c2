//! The tables with unfinished indexes.

use std::sync::Arc;

use ebb_tables::{Catalog, CqlTable};

/// A table with unfinished indexes. Values of two tables are never equal, even if the tables have the same
/// id: a statement may give the id of a dropped table to a new one.
#[derive(Debug, Clone)]
pub(super) struct Building {
    pub table: Arc<CqlTable>,
    /// The ids of the unfinished indexes. A table never reuses an id.
    pub indexes: Vec<u32>,
}

impl PartialEq for Building {
    fn eq(&self, other: &Self) -> bool {
        self.is_of_table(&other.table) && self.indexes == other.indexes
    }
}

impl Building {
    /// Lists all tables with unfinished indexes.
    pub(super) fn all(catalog: &Catalog) -> Vec<Self> {
        let state = catalog.state();
        let tables = state.schema().keyspaces().flat_map(|of| of.tables());
        tables
            .filter_map(|table| Self::of(state.table(table.keyspace(), table.name())?))
            .collect()
    }

    pub(super) fn of(table: &Arc<CqlTable>) -> Option<Self> {
        let indexes = table.schema().indexes().iter();
        let indexes = indexes.filter(|index| index.is_building);
        let indexes: Vec<u32> = indexes.map(|index| index.id).collect();
        (!indexes.is_empty()).then(|| Self {
            table: Arc::clone(table),
            indexes,
        })
    }

    /// Returns whether `table` is the table of this build, whatever its schema is by now. A later
    /// table with the name or the id of a dropped one is another table.
    pub(super) fn is_of_table(&self, table: &CqlTable) -> bool {
        self.table.rows().is_same_table(table.rows())
    }
}
