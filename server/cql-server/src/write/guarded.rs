//! The checks of guardrails on writes and on the values that they write.

use ebb_model::schema::TableSchema;
use ebb_model::types::{CqlType, elements};

use super::operation::Operation;
use super::plan::{Action, WritePlan};
use super::row_buffer::{RowBuffer, Written};
use crate::error::Result;
use crate::guardrails::{Feature, Guardrails, Limit};

/// The limits on values.
pub(super) const OF_VALUES: [Limit; 3] = [
    Limit::ColumnValueSize,
    Limit::ItemsPerCollection,
    Limit::CollectionSize,
];

/// Checks that guardrails allow the features that a statement uses.
///
/// # Errors
/// In Cassandra's words, if they do not.
pub(super) fn check_statement(guardrails: &Guardrails, plan: &WritePlan) -> Result<()> {
    if plan.has_timestamp() {
        guardrails.allow(Feature::UserTimestamps)?;
    }
    let Action::Change { changes, .. } = &plan.action else {
        return Ok(());
    };
    let reads_a_list =
        |operation: &Operation| operation.reads() && !matches!(operation, Operation::Count { .. });
    if changes.iter().any(|change| reads_a_list(&change.operation)) {
        guardrails.allow(Feature::ReadBeforeWriteListOperations)?;
    }
    Ok(())
}

/// Checks the values that a write gives a row against guardrails. Of a collection only the elements
/// count that this write has: the others are not read.
///
/// # Errors
/// In Cassandra's words, if a value is too large.
pub(super) fn check_row(
    guardrails: &Guardrails,
    schema: &TableSchema,
    row: &RowBuffer<'_>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    row.for_each_written(|id, written| {
        let column = schema.columns().iter().find(|column| column.id.0 == id);
        let Some(column) = column else {
            return Ok(());
        };
        let name = &*column.name;
        let mut check = |limit, value: usize| guardrails.check(limit, name, value as u64, warnings);
        match written {
            Written::Cell(value) => {
                check(Limit::ColumnValueSize, value.len())?;
                if is_collection(&column.ty) {
                    let items = elements::count(value).unwrap_or(0);
                    check(Limit::ItemsPerCollection, items)?;
                    check(Limit::CollectionSize, value.len())?;
                }
            }
            Written::Collection {
                items,
                bytes,
                largest_bytes,
            } => {
                check(Limit::ColumnValueSize, largest_bytes)?;
                if is_collection(&column.ty) {
                    check(Limit::ItemsPerCollection, items)?;
                    check(Limit::CollectionSize, bytes)?;
                }
            }
        }
        Ok(())
    })
}

fn is_collection(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. }
    )
}
