//! The analysis of INSERT.

use std::collections::HashSet;

use ebb_cql::syntax::ast::{Insert, InsertSource, Marker, Name, Operator, Relation, Term};
use ebb_model::schema::{Column, ColumnKind, TableSchema};

use super::assignment;
use super::json::{self, JsonRow};
use super::plan::{Action, Change, Parts};
use crate::analyse::markers::Markers;
use crate::analyse::restrictions::column;
use crate::error::{Result, invalid};

/// Prepares the text of INSERT JSON. Returns `None` for an INSERT with VALUES.
pub(super) fn json_of(
    statement: &Insert,
    schema: &TableSchema,
    markers: &mut Markers,
) -> Result<Option<JsonRow>> {
    match &statement.source {
        InsertSource::Values { .. } => Ok(None),
        InsertSource::Json {
            value,
            default_unset,
        } => JsonRow::prepare(value, *default_unset, schema, markers).map(Some),
    }
}

/// Returns the keys and the changes of an INSERT. The keys and changes of an INSERT JSON name all
/// columns of the table, and do not depend on the JSON text.
pub(super) fn prepare(
    statement: &Insert,
    schema: &TableSchema,
    markers: &mut Markers,
) -> Result<Parts> {
    let given = match &statement.source {
        InsertSource::Values { columns, values } => by_columns(schema, columns, values)?,
        InsertSource::Json { .. } => {
            // The plan has a change for each column, and the statement names none of them.
            let columns = schema.columns().len();
            markers.memory().take(columns * size_of::<Change>())?;
            // Each column gets its value from the JSON text, as if the value were bound.
            let value = |(at, column)| {
                let index = json::index_of(markers.count(), at)?;
                Ok((column, Term::Marker(Marker { index, name: None })))
            };
            let given = schema.columns().iter().enumerate().map(value);
            given.collect::<Result<Vec<_>>>()?
        }
    };
    let (keys, others): (Vec<_>, Vec<_>) = given
        .into_iter()
        .partition(|(column, _)| column.kind <= ColumnKind::Clustering);
    let changes = others
        .iter()
        .map(|(column, value)| assignment::set(column, value, markers))
        .collect::<Result<_>>()?;
    let equal = |(column, value): (&Column, Term)| Relation::Column {
        column: Name::new(&*column.name),
        operator: Operator::Equal,
        value,
    };
    Ok(Parts {
        relations: keys.into_iter().map(equal).collect(),
        action: Action::Change {
            has_marker: true,
            changes,
        },
    })
}

fn by_columns<'s>(
    schema: &'s TableSchema,
    columns: &[Name],
    values: &[Term],
) -> Result<Vec<(&'s Column, Term)>> {
    if columns.len() != values.len() {
        return invalid("Unmatched column names/values");
    }
    let mut given: Vec<(&Column, Term)> = Vec::with_capacity(columns.len());
    let mut ids = HashSet::with_capacity(columns.len());
    for (name, value) in columns.iter().zip(values) {
        let column = column(schema, name.as_str())?;
        if !ids.insert(column.id) {
            return invalid("The column names contains duplicates");
        }
        given.push((column, value.clone()));
    }
    Ok(given)
}
