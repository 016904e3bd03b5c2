//! The analysis of INSERT.

use std::collections::HashSet;

use ebb_cql::syntax::ast::{Insert, InsertSource, Marker, Name, Operator, Relation, Term};
use ebb_model::schema::{Column, ColumnKind, TableSchema};

use super::assignment;
use super::json::JsonRow;
use super::plan::{Action, Parts};
use crate::analyse::markers::Markers;
use crate::analyse::restrictions::column;
use crate::error::{Result, invalid};

pub(super) fn prepare(
    statement: &Insert,
    schema: &TableSchema,
    markers: &mut Markers,
) -> Result<Parts> {
    let (given, json) = match &statement.source {
        InsertSource::Values { columns, values } => (by_columns(schema, columns, values)?, None),
        InsertSource::Json {
            value,
            default_unset,
        } => {
            let json = JsonRow::prepare(value, *default_unset, schema, markers)?;
            // Each column gets its value from the JSON text, as if the value were bound.
            let value = |(at, column)| {
                let index = json.index_of(at)?;
                Ok((column, Term::Marker(Marker { index, name: None })))
            };
            let given = schema.columns().iter().enumerate().map(value);
            (given.collect::<Result<Vec<_>>>()?, Some(json))
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
        using: statement.using.clone(),
        action: Action::Change {
            has_marker: true,
            changes,
        },
        json,
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
