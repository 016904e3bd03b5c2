//! The columns of rows that an application uses.

use std::cell::Cell;
use std::sync::Arc;

use ebb_scheduler::runtime::TaskError;

use super::number::{Number, NumberProblem};
use super::{Column, Fields, InvalidRow, RecordFormat, RowDecoder, UnknownColumn};

/// Some columns of rows, by name.
#[derive(Debug, Clone)]
pub struct Columns {
    /// The decoder of the columns; `None` if there are no columns.
    decoder: Option<Arc<RowDecoder>>,
    names: Vec<String>,
    columns: Vec<Column>,
}

thread_local! {
    /// The buffers of a thread. A mapper is shared between threads, while each thread maps
    /// one record at a time.
    static FIELDS: Cell<Option<Box<Fields>>> = const { Cell::new(None) };
}

/// Lends the thread's fields to `f`.
pub(super) fn with_fields<T>(f: impl FnOnce(&mut Fields) -> T) -> T {
    let mut fields = FIELDS.take().unwrap_or_default();
    let result = f(&mut fields);
    FIELDS.set(Some(fields));
    result
}

impl Columns {
    /// Finds the columns called `names` of rows with the format `schema`.
    ///
    /// # Errors
    /// When the rows have no such column, as far as this is known before they are read.
    pub fn new<S: AsRef<str>>(schema: &RecordFormat, names: &[S]) -> Result<Self, UnknownColumn> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let decoder = match &names[..] {
            [] => None,
            names => Some(schema.decoder(names)?.into()),
        };
        Ok(Self {
            decoder,
            columns: declared(schema, &names),
            names: names.into_iter().map(str::to_string).collect(),
        })
    }

    /// Finds the columns of rows that are JSON, with their members in their original form
    /// and the kind of each column; `None` for other rows.
    pub fn as_json<S: AsRef<str>>(
        schema: &RecordFormat,
        names: &[S],
    ) -> Option<(Vec<Column>, Self)> {
        let borrowed: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let (columns, decoder) = schema.json_decoder(&borrowed)?;
        let these = Self {
            decoder: Some(decoder.into()),
            names: borrowed.into_iter().map(str::to_string).collect(),
            columns: columns.clone(),
        };
        Some((columns, these))
    }

    /// Returns all columns that are written with rows.
    pub fn all(schema: &RecordFormat) -> Self {
        let columns = schema.columns();
        Self {
            decoder: Some(schema.whole().into()),
            names: columns.iter().map(|column| column.name.clone()).collect(),
            columns,
        }
    }

    /// Returns the columns for rows that contain them: with their declared type if they
    /// have one, else as text.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the names of the columns, as given.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Passes the fields of the columns in a row, in the order of the columns, to `f`.
    ///
    /// # Errors
    /// When the row does not have its declared format, or `f` fails.
    pub fn read<T>(
        &self,
        key: &[u8],
        value: &[u8],
        f: impl FnOnce(&Fields) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        with_fields(|fields| {
            match &self.decoder {
                None => fields.reset(0),
                Some(decoder) => decoder
                    .decode(key, value, fields)
                    .map_err(|problem| InvalidRow::error(key, problem))?,
            }
            f(fields)
        })
    }

    /// Returns the number in a field of the column `at`; `None` if the field is missing or
    /// has only blanks.
    ///
    /// # Errors
    /// When the field is not a number, or a number that is too large. The error names the
    /// row by `key`.
    pub fn number(
        &self,
        at: usize,
        field: Option<&[u8]>,
        key: &[u8],
    ) -> Result<Option<Number>, TaskError> {
        let name = self.names.get(at).map_or("value", |name| &name[..]);
        number(field, key, name)
    }
}

/// Returns the columns of these names, with their type in `schema` if they have one.
fn declared(schema: &RecordFormat, names: &[&str]) -> Vec<Column> {
    let declared = schema.columns();
    let column = |name: &&str| {
        let found = declared.iter().find(|column| column.name == *name);
        let typed = found.filter(|column| column.ty.is_some()).cloned();
        typed.unwrap_or_else(|| Column::text(*name))
    };
    names.iter().map(column).collect()
}

/// Returns the number in a field of a column called `name`; see [`Columns::number`].
///
/// # Errors
/// When the field is not a number, or a number that is too large. The error names the row
/// by `key`.
pub fn number(field: Option<&[u8]>, key: &[u8], name: &str) -> Result<Option<Number>, TaskError> {
    let Some(field) = field.filter(|field| !field.trim_ascii().is_empty()) else {
        return Ok(None);
    };
    let wrong = |problem: NumberProblem| {
        InvalidRow::error(
            key,
            format!("column {name} is {}, which {problem}", shown(field)),
        )
    };
    Number::parse(field).map(Some).map_err(wrong)
}

/// Returns the start of a field in quotes, enough to find it.
pub fn shown(field: &[u8]) -> String {
    const BYTES_MAX: usize = 60;
    match field.get(..BYTES_MAX) {
        Some(start) if field.len() > BYTES_MAX => format!("\"{}...\"", start.escape_ascii()),
        _ => format!("\"{}\"", field.escape_ascii()),
    }
}

/// Checks that a row has the format `schema`.
///
/// # Errors
/// When the row has another format; the error names the row.
pub fn check(schema: &RecordFormat, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
    let checked = with_fields(|fields| schema.check(value, fields));
    checked.map_err(|problem| InvalidRow::error(key, problem))
}
