//! The tables with unfinished indexes.

use ebb_model::schema::TableSchema;
use ebb_tables::Catalog;
use uuid::Uuid;

/// A table with unfinished indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Building {
    pub id: Uuid,
    pub keyspace: String,
    pub name: String,
    /// The ids of the unfinished indexes. A table never reuses an id.
    pub indexes: Vec<u32>,
}

impl Building {
    /// Lists all tables with unfinished indexes.
    pub(super) fn all(catalog: &Catalog) -> Vec<Self> {
        let state = catalog.state();
        let tables = state.schema().keyspaces().flat_map(|of| of.tables());
        tables.filter_map(|table| Self::of(table)).collect()
    }

    pub(super) fn of(table: &TableSchema) -> Option<Self> {
        let indexes = table.indexes().iter();
        let indexes = indexes.filter(|index| index.is_building);
        let indexes: Vec<u32> = indexes.map(|index| index.id).collect();
        (!indexes.is_empty()).then(|| Self {
            id: table.id(),
            keyspace: table.keyspace().to_owned(),
            name: table.name().to_owned(),
            indexes,
        })
    }
}
