//! Virtual tables, whose rows are computed for each statement.

use std::sync::Arc;

use bytes::Bytes;
use ebb_cql::protocol::ErrorResponse;
use ebb_model::key::{KeyError, ROW};
use ebb_model::schema::{ColumnKind, TableDefinition, TableOptions, TableSchema};
use ebb_model::types::CqlType;
use uuid::Uuid;

use super::{Facts, Lookup, PageRows};
use crate::error::Result;
use crate::interrupt;

/// Computes the rows of a virtual table.
type RowComputation = fn(&Facts, &Lookup, &mut RowSet<'_>) -> Result<()>;

/// The definition of a virtual table, as a constant in the source.
pub(super) struct Definition {
    pub(super) keyspace: &'static str,
    pub(super) name: &'static str,
    pub(super) comment: &'static str,
    /// The columns, each as `name type`.
    pub(super) columns: &'static [&'static str],
    /// The single column of the partition key, followed by the clustering columns.
    pub(super) primary_key: &'static [&'static str],
    /// Computes the rows that a statement reads, and possibly others, in any order.
    pub(super) rows: RowComputation,
}

/// A read-only table whose rows are computed anew for each statement.
#[derive(Debug)]
pub struct VirtualTable {
    schema: Arc<TableSchema>,
    rows: RowComputation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualRow {
    /// The key of the row in the engine's encoding. Rows are sorted by their keys, and a page
    /// begins after the last key of the page before.
    pub key: Vec<u8>,
    /// A cell for each column, in the order of [`TableSchema::columns`]; `None` is null.
    pub cells: Vec<Option<Bytes>>,
}

impl VirtualTable {
    pub(super) fn new(definition: &Definition) -> Self {
        let column = |written: &&'static str| {
            let (name, ty) = written.split_once(' ').expect("a name and a type");
            let ty = CqlType::parse(ty, &|_| None).expect("a type");
            (name, ty, false)
        };
        let columns: Vec<_> = definition.columns.iter().map(column).collect();
        let mut options = TableOptions::default();
        let comment = ebb_model::schema::OptionValue::Text(definition.comment.to_string());
        options
            .set("comment", comment)
            .expect("a comment is a text");
        let full = format!("{}.{}", definition.keyspace, definition.name);
        let (partition_key, clustering) = definition.primary_key.split_at(1);
        let of = (definition.keyspace, definition.name);
        let schema = TableSchema::create(TableDefinition {
            // The id is the same in every database.
            id: Uuid::new_v3(&Uuid::NAMESPACE_OID, full.as_bytes()),
            options,
            ..TableDefinition::new(of, &columns, partition_key, clustering)
        });
        Self {
            schema: Arc::new(schema.expect("our own tables are right; a test makes them all")),
            rows: definition.rows,
        }
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns the current rows of the keyspaces and tables that `lookup` selects, in the order of
    /// their keys. Rows that `lookup.page` does not need may be missing, and rows that `lookup`
    /// does not select may be included.
    ///
    /// # Errors
    /// If the rows describe an unreadable object or take more than `bytes_max` bytes, or if the
    /// statement's time is over.
    pub fn rows(
        &self,
        facts: &Facts,
        lookup: &Lookup,
        bytes_max: usize,
    ) -> Result<Vec<VirtualRow>> {
        let mut set = RowSet {
            schema: &self.schema,
            page: &lookup.page,
            rows: Vec::new(),
            bytes: 0,
            bytes_max,
        };
        (self.rows)(facts, lookup, &mut set)?;
        let mut rows = set.rows;
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(rows)
    }
}

/// Computes no rows: for tables of objects that ebb does not have, such as peers.
pub(super) fn no_rows(_: &Facts, _: &Lookup, _: &mut RowSet<'_>) -> Result<()> {
    Ok(())
}

/// Returns the error of a statement for which the server computes rows of more than `bytes_max`
/// bytes. All of them are computed and sorted before the statement reads the first one, even for
/// `count(*)`.
fn rows_too_large(bytes_max: usize) -> ErrorResponse {
    ErrorResponse::invalid(format!(
        "The rows that the server computes for the statement have more than {bytes_max} bytes before \
         they are filtered or counted; name a keyspace or a table in WHERE, or read the rows in pages \
         and without aggregates"
    ))
}

fn invalid(error: KeyError) -> ErrorResponse {
    ErrorResponse::server(error.to_string())
}

/// The computed rows of a virtual table, without those that lie before the page.
pub(super) struct RowSet<'a> {
    schema: &'a TableSchema,
    page: &'a PageRows,
    rows: Vec<VirtualRow>,
    /// The memory that `rows` takes, in bytes.
    bytes: usize,
    bytes_max: usize,
}

impl RowSet<'_> {
    /// Calls `compute` for each table of `keyspaces`, in the order of the rows' keys, to add the
    /// rows about the table. In these rows the name of the keyspace is the partition key, and the
    /// name of the table is the first clustering column. Leaves out the tables whose rows all lie
    /// before the page, and ends once the page has enough rows.
    ///
    /// `keyspaces` must contain only keyspaces that the statement reads, since rows of others would
    /// fill the page. They may be in any order, but the tables of each must be in the order of
    /// their names.
    pub(super) fn for_each_table<'t>(
        &mut self,
        keyspaces: impl Iterator<Item = (&'t str, Vec<&'t TableSchema>)>,
        mut compute: impl FnMut(&mut Self, &str, &TableSchema) -> Result<()>,
    ) -> Result<()> {
        let layout = self.schema.layout();
        let mut by_key = Vec::new();
        for (name, tables) in keyspaces {
            let partition = layout.partition_key(&[name.as_bytes()]).map_err(invalid)?;
            by_key.push((partition.prefix(), name, tables));
        }
        by_key.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
        for (prefix, name, tables) in by_key {
            let is_before = |table: &&TableSchema| {
                let mut of_table = [&prefix[..], &[ROW]].concat();
                let values = [table.name().as_bytes()];
                let encoded = layout.encode_clustering(&values, &mut of_table);
                encoded.is_ok() && self.page.are_all_before(&of_table)
            };
            for table in &tables[tables.partition_point(is_before)..] {
                if self.is_full() {
                    return Ok(());
                }
                interrupt::charge(1)?;
                compute(self, name, table)?;
            }
        }
        Ok(())
    }

    /// Returns whether the page needs no more rows, if further rows have greater keys.
    pub(super) fn is_full(&self) -> bool {
        (self.page.rows_max).is_some_and(|rows_max| self.rows.len() >= rows_max)
    }

    /// Adds a row, unless it lies before the page. Columns without a cell are null; key columns
    /// must have one. Leaves out a row whose key is too long, because of a name that only an
    /// earlier version accepted: an error would keep drivers, which read all rows about the schema,
    /// from connecting.
    ///
    /// # Errors
    /// If a key column has an invalid value, the rows take too much memory, or the statement's time
    /// is over.
    pub(super) fn push<'n>(
        &mut self,
        named: impl IntoIterator<Item = (&'n str, Bytes)>,
    ) -> Result<()> {
        let columns = self.schema.columns();
        let mut cells = vec![None; columns.len()];
        for (name, cell) in named {
            let at = columns.iter().position(|column| *column.name == *name);
            let at = at.unwrap_or_else(|| panic!("{} has a column {name}", self.schema.name()));
            cells[at] = Some(cell);
        }
        let cell_bytes: usize = cells.iter().flatten().map(Bytes::len).sum();
        // Rows before the page are charged, too, because their cells were computed.
        interrupt::charge_bytes(cell_bytes)?;
        let key_cells = |kind| -> Vec<&[u8]> {
            let of_kind = columns.iter().zip(&cells).filter(|(c, _)| c.kind == kind);
            of_kind
                .map(|(_, cell)| cell.as_deref().unwrap_or_default())
                .collect()
        };
        let layout = self.schema.layout();
        let partition = layout.partition_key(&key_cells(ColumnKind::PartitionKey));
        let clustering = key_cells(ColumnKind::Clustering);
        let key = partition.and_then(|partition| layout.row_key(&partition, &clustering));
        let key = match key {
            Ok(key) if self.page.is_before(&key) => return Ok(()),
            Ok(key) => key,
            Err(KeyError::TooLong(_) | KeyError::ClusteringTooLong(_)) => return Ok(()),
            Err(error) => return Err(invalid(error)),
        };
        self.bytes += cell_bytes + key.len() + size_of_val(&*cells);
        if self.bytes > self.bytes_max {
            return Err(rows_too_large(self.bytes_max));
        }
        self.rows.push(VirtualRow { key, cells });
        Ok(())
    }
}
