//! The analysis of DELETE.

use ebb_cql::syntax::ast::Delete;
use ebb_model::schema::{ColumnKind, TableSchema};

use super::assignment;
use super::plan::{Action, Change, Parts};
use crate::analyse::markers::Markers;
use crate::analyse::restrictions::column;
use crate::error::{Result, invalid};
use crate::interrupt;

pub(super) fn prepare(
    statement: &Delete,
    schema: &TableSchema,
    markers: &mut Markers,
) -> Result<Parts> {
    let mut changes: Vec<Change> = Vec::with_capacity(statement.targets.len());
    for target in &statement.targets {
        interrupt::charge(1)?;
        let column = column(schema, target.column.as_str())?;
        if column.kind <= ColumnKind::Clustering {
            return invalid(format!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            ));
        }
        changes.push(assignment::remove(column, &target.part, markers)?);
    }
    let action = if changes.is_empty() {
        Action::Delete
    } else {
        Action::Change {
            has_marker: false,
            changes,
        }
    };
    Ok(Parts {
        relations: statement.relations.clone(),
        action,
    })
}
