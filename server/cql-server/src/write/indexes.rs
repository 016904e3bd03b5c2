//! The index entries of a write: one for each new value of an indexed column, in the same commit.
//!
//! Nothing is read first. So the entry of the previous value stays and becomes stale, and readers
//! by the index check the row. The invariant is the other direction: every value that a reader sees
//! has its entry.

use ebb_model::key::PartitionKey;
use ebb_model::key::ordered::DecodeError;
use ebb_model::schema::{ColumnKind, IndexedColumn, TableSchema};
use ebb_tables::write::RowBuffer;

use crate::error::{Result, invalid, of_encoding, of_key};
use crate::interrupt;

/// The least length, in bytes, at which a value of an indexed regular or static column is rejected,
/// as in Cassandra. Values of key columns have only the limits of keys.
const VALUE_LEN_LIMIT: usize = 65_535;

/// Calls `put` for each index entry of a written row, with the prefix of the entry's key and the
/// key of the row or partition that the entry refers to.
pub(super) fn put_row(
    schema: &TableSchema,
    partition: &PartitionKey,
    row_key: &[u8],
    row: &RowBuffer<'_>,
    has_marker: bool,
    mut put: impl FnMut(Vec<u8>, &[u8]) -> Result<()>,
) -> Result<()> {
    if schema.indexes().is_empty() {
        return Ok(());
    }
    // A deletion of columns alone makes no row.
    let is_row = has_marker || row.has_values();
    let prefix_len = partition.prefix().len();
    for indexed in schema.indexed_columns() {
        match indexed.column.kind {
            ColumnKind::Regular => put_values(schema, indexed, row, |prefix| put(prefix, row_key))?,
            ColumnKind::Clustering if is_row => {
                let clustering = &row_key[prefix_len + 1..];
                let prefix = indexed.prefix_of_clustering(schema, clustering);
                put(prefix.map_err(of_key)?, row_key)?;
            }
            ColumnKind::PartitionKey if is_row => {
                put_partition(schema, indexed, partition, &mut put)?;
            }
            ColumnKind::PartitionKey | ColumnKind::Clustering | ColumnKind::Static => {}
        }
    }
    Ok(())
}

/// Calls `put` for each index entry of written static columns, with the prefix of the entry's key
/// and the key of the partition's header, which is where the static columns are stored.
pub(super) fn put_statics(
    schema: &TableSchema,
    partition: &PartitionKey,
    row: &RowBuffer<'_>,
    mut put: impl FnMut(Vec<u8>, &[u8]) -> Result<()>,
) -> Result<()> {
    for indexed in schema.indexed_columns() {
        match indexed.column.kind {
            ColumnKind::Static => {
                let header_key = partition.header_key();
                put_values(schema, indexed, row, |prefix| put(prefix, &header_key))?;
            }
            ColumnKind::PartitionKey if row.has_values() => {
                put_partition(schema, indexed, partition, &mut put)?;
            }
            ColumnKind::PartitionKey | ColumnKind::Clustering | ColumnKind::Regular => {}
        }
    }
    Ok(())
}

fn put_partition(
    schema: &TableSchema,
    indexed: IndexedColumn<'_>,
    partition: &PartitionKey,
    put: &mut impl FnMut(Vec<u8>, &[u8]) -> Result<()>,
) -> Result<()> {
    let charge = &mut interrupt::charge_bytes;
    let prefix = indexed.prefix_of_partition(schema, partition.as_bytes(), charge);
    let prefix = prefix.map_err(|error| match error {
        DecodeError::Damaged(error) => of_key(error),
        DecodeError::Charge(error) => error,
    });
    put(prefix?, &partition.header_key())
}

fn put_values(
    schema: &TableSchema,
    indexed: IndexedColumn<'_>,
    row: &RowBuffer<'_>,
    mut put: impl FnMut(Vec<u8>) -> Result<()>,
) -> Result<()> {
    for value in row.values(indexed.column.id.0) {
        let value_len = indexed.value_len(value, &mut interrupt::charge_bytes);
        let value_len = value_len.map_err(of_encoding)?;
        if value_len >= VALUE_LEN_LIMIT {
            return invalid(format!(
                "Cannot index value of size {value_len} for index {} on {}.{}({}) (maximum \
                 allowed size={VALUE_LEN_LIMIT})",
                indexed.index.name,
                schema.keyspace(),
                schema.name(),
                indexed.column.name,
            ));
        }
        let prefix = indexed.prefix_of(value, &mut interrupt::charge_bytes);
        put(prefix.map_err(of_encoding)?)?;
    }
    Ok(())
}
