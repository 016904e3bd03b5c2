//! The columns of rows that an application looks at.

use std::cell::Cell;
use std::sync::Arc;

use ebb_scheduler::runtime::TaskError;

use super::number::{Number, NumberProblem};
use super::{Column, Fields, InvalidRow, RecordFormat, RowDecoder, UnknownColumn};

/// Some columns of rows, by name.
#[derive(Debug, Clone)]
pub struct Columns {
    /// None where no column was asked for.
    decoder: Option<Arc<RowDecoder>>,
    names: Vec<String>,
    columns: Vec<Column>,
}

thread_local! {
    /// Kept for its buffers: a mapper is shared, a thread maps a record at a time.
    static FIELDS: Cell<Option<Box<Fields>>> = const { Cell::new(None) };
}

/// Hands out the thread's fields.
pub(super) fn with_fields<T>(f: impl FnOnce(&mut Fields) -> T) -> T {
    let mut fields = FIELDS.take().unwrap_or_default();
    let result = f(&mut fields);
    FIELDS.set(Some(fields));
    result
}

impl Columns {
    /// The columns called `names` of rows as `schema` says.
    ///
    /// # Errors
    /// When the rows have no such column, as far as can be told before they are read.
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

    /// The same of rows that are JSON, with their members as they are written, and what
    /// each column holds; `None` of other rows.
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

    /// All columns that rows are written with.
    pub fn all(schema: &RecordFormat) -> Self {
        let columns = schema.columns();
        Self {
            decoder: Some(schema.whole().into()),
            names: columns.iter().map(|column| column.name.clone()).collect(),
            columns,
        }
    }

    /// What rows that have them too say of them: as declared where they have a type, else
    /// text.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Their names, as asked for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads these columns of a row, in their order.
    ///
    /// # Errors
    /// When the row is not what it is said to be, or `f` fails.
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

    /// The number that a field of the column `at` is; `None` for one that is missing or
    /// has nothing but blanks.
    ///
    /// # Errors
    /// When it is none, or too large; `key` says in which row.
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

/// The columns of these names as `schema` declares them, if with a type.
fn declared(schema: &RecordFormat, names: &[&str]) -> Vec<Column> {
    let declared = schema.columns();
    let column = |name: &&str| {
        let found = declared.iter().find(|column| column.name == *name);
        let typed = found.filter(|column| column.ty.is_some()).cloned();
        typed.unwrap_or_else(|| Column::text(*name))
    };
    names.iter().map(column).collect()
}

/// The number that a field of a column called `name` is; see [`Columns::number`].
///
/// # Errors
/// When it is none, or too large; `key` says in which row.
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

/// As much of a field as helps to find it, in quotes.
pub fn shown(field: &[u8]) -> String {
    const BYTES_MAX: usize = 60;
    match field.get(..BYTES_MAX) {
        Some(start) if field.len() > BYTES_MAX => format!("\"{}...\"", start.escape_ascii()),
        _ => format!("\"{}\"", field.escape_ascii()),
    }
}

/// That a row is what `schema` says.
///
/// # Errors
/// When it is not.
pub fn check(schema: &RecordFormat, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
    let checked = with_fields(|fields| schema.check(value, fields));
    checked.map_err(|problem| InvalidRow::error(key, problem))
}
