//! DELETE as a plan.

use std::sync::Arc;

use ebb_catalog::schema::ColumnKind;
use ebb_cql::syntax::ast::Delete;
use ebb_tables::CqlTable;

use super::assignment;
use super::keys::{Written, of_relations};
use super::plan::{Action, Change, WritePlan, column};
use super::using::Using;
use crate::analyse::markers::Markers;
use crate::error::{Result, invalid};

pub(super) fn prepare(
    statement: &Delete,
    table: &Arc<CqlTable>,
    markers: &mut Markers,
) -> Result<WritePlan> {
    let schema = table.schema();
    let mut changes: Vec<Change> = Vec::with_capacity(statement.targets.len());
    for target in &statement.targets {
        let column = column(schema, target.column.as_str())?;
        if column.kind <= ColumnKind::Clustering {
            return invalid(format!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            ));
        }
        changes.push(assignment::remove(column, &target.part, markers)?);
    }
    let written = match &changes[..] {
        [] => Written::Deleted,
        changes if changes.iter().all(Change::is_static) => Written::Statics,
        _ => Written::Rows,
    };
    let action = match changes.is_empty() {
        true => Action::Delete,
        false => Action::Change {
            has_marker: false,
            changes,
        },
    };
    Ok(WritePlan {
        table: Arc::clone(table),
        keys: of_relations(schema, "DELETE", written, &statement.relations, markers)?,
        using: Using::prepare(statement.timestamp.as_ref(), None, markers)?,
        action,
    })
}
