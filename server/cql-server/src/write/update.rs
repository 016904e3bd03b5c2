//! The analysis of UPDATE.

use ebb_cql::syntax::ast::Update;
use ebb_model::schema::{ColumnKind, TableSchema};

use super::assignment;
use super::plan::{Action, Change, Parts};
use crate::analyse::markers::Markers;
use crate::analyse::restrictions::column;
use crate::error::{Result, invalid};

pub(super) fn prepare(
    statement: &Update,
    schema: &TableSchema,
    markers: &mut Markers,
) -> Result<Parts> {
    let mut changes: Vec<Change> = Vec::with_capacity(statement.assignments.len());
    // The parser has checked which assignments to one column may be combined.
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
    Ok(Parts {
        relations: statement.relations.clone(),
        action: Action::Change {
            has_marker: false,
            changes,
        },
    })
}
