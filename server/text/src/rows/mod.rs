//! A file as rows in their order, each with the line in which it begins.
//!
//! ```text
//!   source::open ─> Records ─┬─> text: the line
//!                            ├─> json: the line, and a member of the object in it
//!                            └─> csv: the record, and a field of it
//! ```

mod header;
mod member;

use std::io::Read;

pub(super) use self::header::Columns;
use self::header::{header, place};
use super::csv::{CsvFields, push_record};
use super::error::Problem;
use super::format::TextFormat;
use super::options::LoadOptions;
use super::reader::{Record, RecordKind, Records};
use super::walk::TextFile;

/// The number of digits of a line number. It is fixed, so that keys are in the order of the lines
/// and a line keeps its key when the file grows.
const NUMBER_DIGITS: usize = 12;

/// The maximal number of lines of a file: the largest number of [`NUMBER_DIGITS`] digits. A file
/// with more lines is larger than a terabyte.
const LINES_MAX: u64 = 10u64.pow(NUMBER_DIGITS as u32) - 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The line in which the row begins, from 1.
    pub(super) line: u64,
    /// The number of bytes of text that the row takes, decompressed: see [`Record::bytes`].
    pub(super) text_bytes: u64,
}

/// Reads the rows of a file in their order.
pub(super) struct Rows<'a> {
    records: Records<'a>,
    key: Key,
    /// The splitter of CSV records; `None` for other formats.
    fields: Option<CsvFields>,
    columns: Option<Columns>,
}

/// The source of a row's key.
enum Key {
    /// The number of the line in which the row begins. These bytes precede the number in the key.
    Line(Vec<u8>),
    /// The field of a CSV record with the index `at`, from 0. `column` is the name or number that the
    /// user gave, for errors.
    Field { at: usize, column: String },
    /// The member of the JSON object with this name, or path of names.
    Member(String),
}

/// Returns the rows of `file`. `source` returns its content, decompressed.
///
/// # Errors
/// If the start of `source` cannot be read, if the header is malformed or lacks the key column, or
/// if the options name a key column but the rows are lines of text.
pub(super) fn rows<'a>(
    file: &TextFile,
    format: TextFormat,
    options: &LoadOptions,
    source: impl Read + 'a,
) -> Result<Rows<'a>, Problem> {
    let kind = match format {
        TextFormat::Text => RecordKind::Text,
        TextFormat::JsonLines => RecordKind::JsonLines,
        TextFormat::Csv => RecordKind::Csv(options.dialect_of(&file.path)),
    };
    let mut records = Records::new(source, kind);
    let mut fields = match kind {
        RecordKind::Csv(dialect) => Some(CsvFields::new(dialect)),
        RecordKind::Text | RecordKind::JsonLines => None,
    };
    let columns = match &mut fields {
        Some(fields) if options.header => header(&mut records, fields)?,
        _ => None,
    };
    let key = match (&options.key, kind) {
        (None, _) => Key::Line(file.key_prefix()),
        (Some(member), RecordKind::JsonLines) => Key::Member(member.clone()),
        (Some(column), RecordKind::Csv(_)) => Key::Field {
            at: place(column, options.header, columns.as_ref())?,
            column: column.clone(),
        },
        (Some(column), RecordKind::Text) => {
            let what = format!("there is no column {column:?} in a line of text");
            return Err(Problem::bad(1, what));
        }
    };
    Ok(Rows {
        records,
        key,
        fields,
        columns,
    })
}

impl Rows<'_> {
    /// Replaces `row` by the next row. Returns false if there is none. The caller must not read on
    /// after an error.
    pub(super) fn read(&mut self, row: &mut Row) -> Result<bool, Problem> {
        let Some(record) = self.records.read()? else {
            return Ok(false);
        };
        row.value.clear();
        (row.line, row.text_bytes) = (record.line, record.bytes);
        match &mut self.fields {
            None => row.value.extend_from_slice(record.text),
            Some(fields) => {
                split(&record, fields)?;
                self.columns.get_or_insert_with(|| Columns {
                    line: record.line,
                    names: None,
                    count: fields.len(),
                });
                push_record(&mut row.value, fields);
            }
        }
        match (&self.key, &self.fields) {
            (Key::Line(prefix), _) => write_line_key(&mut row.key, prefix, record.line)?,
            (Key::Member(name), _) => {
                row.key = member::text_at(record.text, name)
                    .map_err(|problem| Problem::bad(record.line, problem))?;
                check_key(&row.key, name, record.line)?;
            }
            (Key::Field { at, column }, fields) => {
                let field = fields.as_ref().and_then(|fields| fields.get(*at));
                let field = field.ok_or_else(|| {
                    let what = format!("there is no column {column:?} in it, which is the key");
                    Problem::bad(record.line, what)
                })?;
                check_key(field, column, record.line)?;
                row.key.clear();
                row.key.extend_from_slice(field);
            }
        }
        Ok(true)
    }

    /// Returns the columns of a CSV file; `None` for other files, and until they are known: without
    /// a header, they are known from the first row on.
    pub(super) fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }
}

/// Splits a well-formed record.
fn split(record: &Record<'_>, fields: &mut CsvFields) -> Result<(), Problem> {
    let parsed = fields.parse(record.text);
    parsed.map_err(|problem| Problem::bad(record.line, problem.to_string()))
}

/// Replaces `key` by the key of a line, for example `docs/wal.md:000000000012`. Returns an error if `line`
/// is above [`LINES_MAX`].
fn write_line_key(key: &mut Vec<u8>, prefix: &[u8], line: u64) -> Result<(), Problem> {
    use std::io::Write as _;

    if line > LINES_MAX {
        let what = format!("a file has at most {LINES_MAX} lines");
        return Err(Problem::bad(line, what));
    }
    key.clear();
    key.extend_from_slice(prefix);
    write!(key, "{line:0NUMBER_DIGITS$}").expect("memory takes all");
    Ok(())
}

/// Returns an error if `key`, the value of the key column, is empty or longer than the store permits.
fn check_key(key: &[u8], column: &str, line: u64) -> Result<(), Problem> {
    if key.is_empty() {
        let what = format!("column {column:?}, which is the key, is empty");
        return Err(Problem::bad(line, what));
    }
    if key.len() > ebb_storage::MAX_KEY_BYTES {
        let what = format!(
            "column {column:?}, which is the key, has {} bytes; a key has at most {}",
            key.len(),
            ebb_storage::MAX_KEY_BYTES
        );
        return Err(Problem::bad(line, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
