//! Checks of a request that reads a table that CQL made, and the columns that the job
//! reads.

use ebb_model::schema::TableSchema;
use ebb_tables::lookup::{LookupError, Unknown};

use crate::error::JobError;
use crate::request::{KeySelection, TableInput, ValueKind};

/// Checks that a request does not describe the keys and values of the table, because its
/// schema does.
///
/// # Errors
/// When the request describes keys or values, or names a column that the table does not
/// have.
pub(super) fn check(request: &TableInput, schema: &TableSchema) -> Result<(), JobError> {
    let name = &request.table;
    let no = |what: &str| {
        JobError::senseless(format!(
            "table {name} was made by CQL: its schema says what its rows are, and {what}"
        ))
    };
    if request.keys != KeySelection::All {
        return Err(no(
            "their keys are in the order of hashes: a range or a prefix selects none",
        ));
    }
    let is_csv = !request.names.is_empty() || request.lenient_quotes;
    if request.values != ValueKind::Text || is_csv {
        return Err(no("values and names of columns are not for the job to say"));
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

/// Returns the columns to read: those that the request names, else those that the
/// application uses, if all of them are columns of the table; `None`: all columns.
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
