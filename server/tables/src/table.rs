//! A CQL table: its schema, and where its rows lie.

use std::sync::Arc;

use bytes::Bytes;
use ebb_catalog::key::SCHEMA_KEY;
use ebb_catalog::schema::TableSchema;
use ebb_storage::{DetachedTable, SnapshotTable, Table};

use super::error::{CatalogError, Result};
use super::operators::CQL_ROW;

/// A table as the schema has it now. It never changes: after an ALTER there is another one
/// over the same rows.
#[derive(Debug, Clone)]
pub struct CqlTable {
    schema: Arc<TableSchema>,
    rows: Table,
}

impl CqlTable {
    pub(super) fn new(schema: Arc<TableSchema>, rows: Table) -> Self {
        Self { schema, rows }
    }

    /// Its columns and options.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Its headers and rows as operands of [`CQL_ROW`](super::CQL_ROW), and the record of
    /// its schema under [`SCHEMA_KEY`], before all of them.
    pub fn rows(&self) -> &Table {
        &self.rows
    }
}

/// The schema that a table had when a snapshot of it was created; `None` for a table that
/// was not made by CQL.
///
/// # Errors
/// When it cannot be read.
pub fn schema_at(rows: &SnapshotTable, name: &str) -> Result<Option<TableSchema>> {
    // What a key of other tables says is no schema.
    if rows.options().merge_operator.as_deref() != Some(CQL_ROW) {
        return Ok(None);
    }
    let record = rows.get(SCHEMA_KEY)?;
    record.map(|record| decode(&record, name)).transpose()
}

/// The same of a table that is read without its database, and that CQL made.
///
/// # Errors
/// When it cannot be read, or is not there.
pub fn detached_schema(rows: &DetachedTable, name: &str) -> Result<TableSchema> {
    match rows.get(SCHEMA_KEY)? {
        Some(record) => decode(&record, name),
        None => Err(CatalogError::Corrupt {
            what: format!("the schema of table {name}"),
            detail: "it is not there".to_string(),
        }),
    }
}

/// A table's schema from its record.
pub(super) fn decode(record: &Bytes, name: &str) -> Result<TableSchema> {
    TableSchema::decode(record).map_err(|error| CatalogError::Corrupt {
        what: format!("the schema of table {name}"),
        detail: error.to_string(),
    })
}
