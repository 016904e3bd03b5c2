//! UPDATE as a plan.

use std::sync::Arc;

use ebb_catalog::schema::ColumnKind;
use ebb_cql::syntax::ast::Update;
use ebb_tables::CqlTable;

use super::assignment;
use super::keys::{Written, of_relations};
use super::plan::{Action, Change, WritePlan, column};
use super::using::Using;
use crate::analyse::markers::Markers;
use crate::error::{Result, invalid};

pub(super) fn prepare(
    statement: &Update,
    table: &Arc<CqlTable>,
    markers: &mut Markers,
) -> Result<WritePlan> {
    let schema = table.schema();
    let mut changes: Vec<Change> = Vec::with_capacity(statement.assignments.len());
    // Which of them may stand beside others of their column, the syntax knows.
    for assignment in &statement.assignments {
        let column = column(schema, assignment.column.as_str())?;
        if column.kind <= ColumnKind::Clustering {
            return invalid(format!(
                "PRIMARY KEY part {} found in SET part",
                column.name
            ));
        }
        changes.push(assignment::assign(column, &assignment.change, markers)?);
    }
    let written = match changes.iter().all(Change::is_static) {
        true => Written::Statics,
        false => Written::Rows,
    };
    Ok(WritePlan {
        table: Arc::clone(table),
        keys: of_relations(schema, "UPDATE", written, &statement.relations, markers)?,
        using: Using::prepare(
            statement.using.timestamp.as_ref(),
            statement.using.ttl.as_ref(),
            markers,
        )?,
        action: Action::Change {
            has_marker: false,
            changes,
        },
    })
}
