//! The choice of columns of rows that an application reads.

use std::cell::Cell;
use std::sync::Arc;

use ebb_scheduler::runtime::TaskError;

use super::number::{Number, NumberProblem};
use super::{Column, Fields, InvalidRow, RecordFormat, RowDecoder, UnknownColumn};

/// Some columns of rows, chosen by name, and the decoder of their fields.
#[derive(Debug, Clone)]
pub struct Columns {
    /// The decoder of the columns; `None` if there are no columns.
    decoder: Option<Arc<RowDecoder>>,
    names: Vec<String>,
    columns: Vec<Column>,
}

thread_local! {
    /// The buffers of this thread for the fields of a row. Threads share a mapper, but each thread
    /// maps one record at a time.
    static FIELDS: Cell<Option<Box<Fields>>> = const { Cell::new(None) };
}

/// Calls `f` with the buffers of this thread for the fields of a row.
pub(super) fn with_fields<T>(f: impl FnOnce(&mut Fields) -> T) -> T {
    let mut fields = FIELDS.take().unwrap_or_default();
    let result = f(&mut fields);
    FIELDS.set(Some(fields));
    result
}

impl Columns {
    /// Chooses the columns with the names `names`, of rows with the format `schema`.
    ///
    /// # Errors
    /// When `schema` shows that the rows lack one of the columns.
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

    /// Chooses columns of rows whose values are JSON objects. Fields that are members keep their
    /// form as JSON: strings keep their quotes. Also returns the columns with their kinds. Returns
    /// `None` if the values are not JSON objects.
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

    /// Chooses all columns with which rows of the format `schema` are written.
    pub fn all(schema: &RecordFormat) -> Self {
        let columns = schema.columns();
        Self {
            decoder: Some(schema.whole().into()),
            names: columns.iter().map(|column| column.name.clone()).collect(),
            columns,
        }
    }

    /// Returns the chosen columns in their order, with names and kinds. After [`new`](Self::new), a
    /// column without a declared CQL type is text.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the names of the chosen columns, in their order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Decodes a row, and calls `f` with the fields of the chosen columns, in their order. Returns
    /// the result of `f`.
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

    /// Parses the number in `field`, a field of the column with the index `at`; `None` if the field
    /// is missing or has only blanks.
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

/// Returns the columns with these names, each with its type if `schema` has one for it.
fn declared(schema: &RecordFormat, names: &[&str]) -> Vec<Column> {
    let declared = schema.columns();
    let column = |name: &&str| {
        let found = declared.iter().find(|column| column.name == *name);
        let typed = found.filter(|column| column.ty.is_some()).cloned();
        typed.unwrap_or_else(|| Column::text(*name))
    };
    names.iter().map(column).collect()
}

/// Parses the number in a field of the column with the name `name`; see [`Columns::number`].
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

/// Returns the first 60 bytes of a field in quotes, for an error: enough to find the field.
pub fn shown(field: &[u8]) -> String {
    const BYTES_MAX: usize = 60;
    match field.get(..BYTES_MAX) {
        Some(start) if field.len() > BYTES_MAX => format!("\"{}...\"", start.escape_ascii()),
        _ => format!("\"{}\"", field.escape_ascii()),
    }
}

/// Checks that the value of a row has the format `schema`.
///
/// # Errors
/// When the row has another format; the error names the row.
pub fn check(schema: &RecordFormat, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
    let checked = with_fields(|fields| schema.check(value, fields));
    checked.map_err(|problem| InvalidRow::error(key, problem))
}
