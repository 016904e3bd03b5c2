//! Guardrails on writes and on the written values.

use ebb_model::schema::{Column, ColumnId, Indexed, TableSchema, len_in_path};
use ebb_model::types::elements;
use ebb_tables::write::RowBuffer;

use super::collection::key_type;
use super::plan::WritePlan;
use crate::error::{Result, of_encoding};
use crate::guardrails::{Feature, Guardrails, Limit};
use crate::interrupt;

pub(super) const OF_VALUES: [Limit; 3] = [
    Limit::ColumnValueSize,
    Limit::ItemsPerCollection,
    Limit::CollectionSize,
];

/// Checks that guardrails permit the features that a statement uses.
pub(super) fn check_statement(guardrails: &Guardrails, plan: &WritePlan) -> Result<()> {
    if plan.has_timestamp() {
        guardrails.allow(Feature::UserTimestamps)?;
    }
    if plan.reads_lists() {
        guardrails.allow(Feature::ReadBeforeWriteListOperations)?;
    }
    Ok(())
}

/// Checks the values that a write adds to a row against guardrails. Only the written elements of a
/// collection count, because the stored ones are not read.
pub(super) fn check_row(
    guardrails: &Guardrails,
    schema: &TableSchema,
    row: &RowBuffer<'_>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    for id in row.column_ids() {
        let Some(column) = schema.column_by_id(ColumnId(id)) else {
            continue;
        };
        let is_collection = column.ty.is_collection();
        let (mut items, mut bytes, mut largest_bytes) = (0, 0, 0);
        for value in row.values(id) {
            match value {
                Indexed::Cell(value) => {
                    if is_collection {
                        items = elements::count(value).unwrap_or(0);
                    }
                    (bytes, largest_bytes) = (value.len(), value.len());
                }
                Indexed::Element(path, value) => {
                    let key_bytes = key_len(row, column, path)?;
                    items += 1;
                    bytes += key_bytes + value.len();
                    largest_bytes = largest_bytes.max(key_bytes).max(value.len());
                }
            }
        }
        let name = &*column.name;
        let mut check = |limit, value: usize| guardrails.check(limit, name, value as u64, warnings);
        check(Limit::ColumnValueSize, largest_bytes)?;
        if is_collection {
            check(Limit::ItemsPerCollection, items)?;
            check(Limit::CollectionSize, bytes)?;
        }
    }
    Ok(())
}

/// Returns the length of the map key or set member with this path, as the client wrote it. The path
/// of another element, such as the place in a list, is no value of the client: its length is 0
/// here.
fn key_len(row: &RowBuffer<'_>, column: &Column, path: &[u8]) -> Result<usize> {
    let Some(ty) = key_type(&column.ty) else {
        return Ok(0);
    };
    match row.original(column.id.0, path) {
        Some(original) => Ok(original.len()),
        None => len_in_path(ty, path, &mut interrupt::charge_bytes).map_err(of_encoding),
    }
}
