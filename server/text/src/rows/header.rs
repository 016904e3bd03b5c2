//! The columns of a CSV file.

use crate::csv::{CsvFields, problem_of_names};
use crate::error::Problem;
use crate::reader::Records;

/// The columns of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The line in which the header begins; without a header, that of the first record.
    pub(crate) line: u64,
    /// The names of the columns; `None` without a header.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) count: usize,
}

/// Reads the names of the columns from the first record; `None` for a file without records.
///
/// # Errors
/// If the record cannot be read, is malformed, or repeats a column name.
pub(super) fn header(
    records: &mut Records<'_>,
    fields: &mut CsvFields,
) -> Result<Option<Columns>, Problem> {
    let Some(record) = records.read()? else {
        return Ok(None);
    };
    super::split(&record, fields)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let names: Vec<String> = fields.iter().map(text).collect();
    if let Some(problem) = problem_of_names(&names) {
        return Err(Problem::bad(record.line, problem));
    }
    Ok(Some(Columns {
        line: record.line,
        count: names.len(),
        names: Some(names),
    }))
}

/// Returns the index of a column, from 0. `column` is its name or its number, from 1; a name has
/// priority. If a file should have a header but has no record, every name is accepted, and its
/// index is 0.
///
/// # Errors
/// If there is no such column. Without a header, columns have no names, only numbers, and every
/// number is accepted.
pub(super) fn place(
    column: &str,
    has_header: bool,
    columns: Option<&Columns>,
) -> Result<usize, Problem> {
    let number = column.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let names = columns.and_then(|columns| columns.names.as_deref());
    let Some((names, columns)) = names.zip(columns) else {
        return match number {
            Some(at) => Ok(at),
            None if has_header => Ok(0),
            None => {
                let what = format!(
                    "there is no column {column:?}: without a header columns have numbers only, \
                     from 1"
                );
                Err(Problem::bad(1, what))
            }
        };
    };
    let named = names.iter().position(|name| name == column);
    named
        .or(number.filter(|at| *at < names.len()))
        .ok_or_else(|| {
            let what = format!(
                "there is no column {column:?}; there are: {}, or their numbers from 1 \
                 (is it the --delimiter?)",
                names.join(", ")
            );
            Problem::bad(columns.line, what)
        })
}
