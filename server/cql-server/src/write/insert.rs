//! INSERT as a plan.

use std::sync::Arc;

use ebb_catalog::schema::{Column, ColumnKind};
use ebb_cql::syntax::ast::{Insert, InsertSource, Term};
use ebb_tables::CqlTable;

use super::assignment;
use super::keys::{Written, of_columns};
use super::plan::{Action, WritePlan, column};
use super::using::Using;
use crate::analyse::markers::Markers;
use crate::error::{Result, invalid};

pub(super) fn prepare(
    statement: &Insert,
    table: &Arc<CqlTable>,
    markers: &mut Markers,
) -> Result<WritePlan> {
    let InsertSource::Values { columns, values } = &statement.source else {
        return invalid("INSERT JSON is not supported yet");
    };
    if columns.len() != values.len() {
        return invalid("Unmatched column names/values");
    }
    let schema = table.schema();
    let mut given: Vec<(&Column, &Term)> = Vec::with_capacity(columns.len());
    for (name, value) in columns.iter().zip(values) {
        let column = column(schema, name.as_str())?;
        if given.iter().any(|(earlier, _)| earlier.id == column.id) {
            return invalid("The column names contains duplicates");
        }
        given.push((column, value));
    }
    let (keys, others): (Vec<_>, Vec<_>) = given
        .into_iter()
        .partition(|(column, _)| column.kind <= ColumnKind::Clustering);
    let is_static = |(column, _): &(&Column, &Term)| column.kind == ColumnKind::Static;
    let written = match !others.is_empty() && others.iter().all(is_static) {
        true => Written::Statics,
        false => Written::Rows,
    };
    let changes = others
        .iter()
        .map(|(column, value)| assignment::set(column, value, markers))
        .collect::<Result<_>>()?;
    Ok(WritePlan {
        table: Arc::clone(table),
        keys: of_columns(schema, written, &keys, markers)?,
        using: Using::prepare(
            statement.using.timestamp.as_ref(),
            statement.using.ttl.as_ref(),
            markers,
        )?,
        action: Action::Change {
            has_marker: true,
            changes,
        },
    })
}
