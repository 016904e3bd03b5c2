//! Guardrails on writes and on the written values.

use ebb_model::schema::{ColumnId, Indexed, TableSchema};
use ebb_model::types::elements;
use ebb_tables::write::RowBuffer;

use super::plan::WritePlan;
use crate::error::Result;
use crate::guardrails::{Feature, Guardrails, Limit};

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
                    items += 1;
                    bytes += path.len() + value.len();
                    largest_bytes = largest_bytes.max(path.len()).max(value.len());
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
