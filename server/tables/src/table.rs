//! A CQL table: its schema, and the table of the store with its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use ebb_model::key::SCHEMA_KEY;
use ebb_model::schema::{IndexSchema, SchemaError, TableSchema, Unreadable};
use ebb_storage::{DetachedTable, SnapshotTable, Table};

use super::damage::{MISSING, Readable, is_empty, readable};
use super::error::{CatalogError, Result};
use super::operators::CQL_ROW;

/// A table and its schema at one moment. It is immutable, except for the marks of dropped indexes:
/// an ALTER creates another `CqlTable` with the same stored rows.
#[derive(Debug, Clone)]
pub struct CqlTable {
    schema: Arc<TableSchema>,
    rows: Table,
    /// For each index of the schema, in the same order, a mark that is true once the index is being
    /// dropped. The `CqlTable`s of all schemas of the table share the mark of an index.
    dropped: Vec<Arc<AtomicBool>>,
}

impl CqlTable {
    pub(super) fn new(schema: Arc<TableSchema>, rows: Table) -> Self {
        let dropped = schema.indexes().iter().map(|_| Arc::default());
        Self {
            dropped: dropped.collect(),
            schema,
            rows,
        }
    }

    /// Returns the table with its next schema.
    pub(super) fn with_schema(&self, schema: Arc<TableSchema>) -> Self {
        let mark = |index: &IndexSchema| self.mark_of(index.id).cloned().unwrap_or_default();
        Self {
            dropped: schema.indexes().iter().map(mark).collect(),
            schema,
            rows: self.rows.clone(),
        }
    }

    fn mark_of(&self, index: u32) -> Option<&Arc<AtomicBool>> {
        let mut indexes = self.schema.indexes().iter().zip(&self.dropped);
        indexes.find_map(|(one, mark)| (one.id == index).then_some(mark))
    }

    /// Marks the indexes that the table's next schema does not have as dropped, or, if the change
    /// of the schema has failed, as not dropped. To be called before the commit that removes their
    /// entries: see [`is_index_dropped`](Self::is_index_dropped).
    pub(super) fn mark_dropped(&self, next: &TableSchema, is_dropped: bool) {
        for (index, mark) in self.schema.indexes().iter().zip(&self.dropped) {
            if next.indexed_column(index.id).is_none() {
                mark.store(is_dropped, Ordering::Release);
            }
        }
    }

    /// Returns whether an index of this schema is being dropped or was dropped. The drop removes
    /// the entries before the next schema becomes the current one. So a read by an index has to
    /// check this after it has opened its view: only if the result is false, the view has the
    /// entries.
    pub fn is_index_dropped(&self, index: u32) -> bool {
        let mark = self.mark_of(index);
        mark.is_some_and(|mark| mark.load(Ordering::Acquire))
    }

    /// Returns the columns, indexes and options of the table.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns the table of the store. In the order of its keys, it contains the record of the
    /// schema (under [`SCHEMA_KEY`]), the entries of indexes, and the headers and rows of
    /// partitions. Headers and rows are operands of [`CQL_ROW`](super::CQL_ROW).
    pub fn rows(&self) -> &Table {
        &self.rows
    }
}

/// Reads the schema of a table as of a snapshot. Returns `None` if CQL did not create the table, or
/// had not finished the creation by then. The inner error is the reason if the record is unreadable.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn stored_schema(
    rows: &SnapshotTable,
    table: (&str, &str),
) -> Result<Option<Readable<TableSchema>>> {
    let open = |record: Bytes| {
        let opened = TableSchema::open(table, &record);
        opened.map_err(|error| error.reason())
    };
    let record = stored_record(rows)?;
    Ok(record.map(|record| record.and_then(open)))
}

/// Reads the schema record of a table as of a snapshot. Returns `None` if CQL did not create the table,
/// or had not finished the creation by then. The inner error is the reason if the record is missing or
/// damaged.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn stored_record(rows: &SnapshotTable) -> Result<Option<Readable<Bytes>>> {
    // In other tables the key has another meaning.
    if rows.options().merge_operator.as_deref() != Some(CQL_ROW) {
        return Ok(None);
    }
    Ok(match readable(rows.get(SCHEMA_KEY))? {
        Ok(Some(record)) => Some(Ok(record)),
        Ok(None) if is_empty(rows.range::<&[u8], _>(..))? => None,
        Ok(None) => Some(Err(MISSING.to_string())),
        Err(damage) => Some(Err(damage)),
    })
}

/// Returns the schema that a table had when a snapshot of it was created. `name` is `KEYSPACE.TABLE`.
/// Returns `None` if CQL did not create the table, or had not finished the creation by then.
///
/// # Errors
/// [`SchemaError::Unreadable`] if the record is unreadable; errors of the store.
pub fn schema_at(rows: &SnapshotTable, name: &str) -> Result<Option<TableSchema>> {
    let (keyspace, table) = name.split_once('.').unwrap_or((name, ""));
    let unreadable = |why: String| SchemaError::from(Unreadable::table(keyspace, table, &why));
    let stored = stored_schema(rows, (keyspace, table))?;
    Ok(stored.transpose().map_err(unreadable)?)
}

/// Returns the schema of a CQL table that is read without its database. `name` is for errors.
///
/// # Errors
/// [`CatalogError::Corrupt`] if the record is missing or cannot be decoded; errors of the store.
pub fn detached_schema(rows: &DetachedTable, name: &str) -> Result<TableSchema> {
    let corrupt = |detail: String| CatalogError::Corrupt {
        what: format!("the schema of table {name}"),
        detail,
    };
    let record = rows.get(SCHEMA_KEY)?;
    let record = record.ok_or_else(|| corrupt(MISSING.to_string()))?;
    TableSchema::decode(&record).map_err(|error| corrupt(error.reason()))
}
