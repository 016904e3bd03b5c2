//! Checks of a request that reads a table that CQL made, and the choice of the columns that the job
//! reads.

use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_tables::lookup::{LookupError, Unknown};

use crate::error::JobError;
use crate::request::{KeySelection, TableInput, ValueKind};

/// Checks that a request does not describe the keys and values of a CQL table, because the schema of
/// the table does.
///
/// # Errors
/// When the request describes keys or values, or names a column that the table does not
/// have.
pub(super) fn check(request: &TableInput, schema: &TableSchema) -> Result<(), JobError> {
    let name = &request.table;
    let no = |what: &str| JobError::senseless(format!("table {name} was made by CQL: {what}"));
    if request.keys != KeySelection::All {
        return Err(no(
            "its keys are in the order of hashes, so leave out range and prefix",
        ));
    }
    let is_csv = !request.names.is_empty() || request.lenient_quotes;
    if request.values != ValueKind::Text || is_csv {
        return Err(no(
            "its schema has the columns, so leave out values, names and lenient_quotes",
        ));
    }
    let unknown = (request.columns.iter()).find(|column| schema.column(column).is_none());
    match unknown {
        None => Ok(()),
        Some(column) => Err(LookupError::Unknown(Unknown {
            what: "column",
            name: column.clone(),
            place: format!("table {name}"),
            known: (schema.columns().iter())
                .map(|column| column.name.to_string())
                .collect(),
        })
        .into()),
    }
}

/// Checks the columns that are to make up the value of a row, for an application that reads only
/// values. A column of the primary key would be left out silently: it is part of the row's key.
///
/// # Errors
/// When one of these columns is in the primary key.
pub(super) fn check_columns_of_values(
    request: &TableInput,
    schema: &TableSchema,
) -> Result<(), JobError> {
    let is_key = |name: &&String| {
        let column = schema.column(name);
        column.is_some_and(|column| column.kind <= ColumnKind::Clustering)
    };
    match request.columns.iter().find(is_key) {
        None => Ok(()),
        Some(column) => Err(JobError::senseless(format!(
            "column {column} of table {} is in the primary key, which is no part of a row's value: name \
             other columns; to search this one, use select with a condition such as '{column} ~ TEXT'",
            request.table
        ))),
    }
}

/// Returns the columns to read; `None` stands for all columns. If the request names columns, these
/// are read. Otherwise the columns in `looked_at`, those that the application reads, are read if
/// each of them is a column of the table.
pub(super) fn wanted(
    request: &TableInput,
    schema: &TableSchema,
    looked_at: Option<Vec<&str>>,
) -> Option<Vec<String>> {
    if !request.columns.is_empty() {
        return Some(request.columns.clone());
    }
    // `value`, and numbers of columns, refer to the row as a whole.
    let looked_at = looked_at?;
    let is_column = |name: &&str| schema.column(name).is_some();
    let all = looked_at.iter().all(is_column);
    all.then(|| looked_at.into_iter().map(str::to_string).collect())
}
