//! CSV records.

use std::io::{self, BufRead, Read};

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use csv_core::{WriteResult, Writer, WriterBuilder};

use super::{Key, LINE_BYTES_MAX, Row, Rows, check_key, check_text, write_line_key};
use crate::error::Problem;

/// What is read at a time.
const READ_BYTES: usize = 64 << 10;

/// Every record is a row, but for a header.
pub(super) struct CsvRows<'a> {
    reader: Reader<Limited<'a>>,
    key: KeyField,
    columns: Option<Vec<String>>,
    record: ByteRecord,
    writer: Writer,
}

enum KeyField {
    Line(Vec<u8>),
    Field { at: usize, column: String },
}

impl<'a> CsvRows<'a> {
    /// # Errors
    /// When the header cannot be read, names a column twice, or lacks the key.
    pub(super) fn new(
        reader: Box<dyn BufRead + 'a>,
        key: Key,
        delimiter: u8,
        header: bool,
    ) -> Result<Self, Problem> {
        let limited = Limited {
            reader,
            left: LINE_BYTES_MAX,
        };
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(header)
            .buffer_capacity(READ_BYTES)
            .from_reader(limited);
        let columns = match header {
            true => Some(columns(&mut reader)?),
            false => None,
        };
        let key = match key {
            Key::Line(prefix) => KeyField::Line(prefix),
            Key::Column(column) => {
                let at = place(&column, columns.as_deref())?;
                KeyField::Field { at, column }
            }
        };
        Ok(Self {
            reader,
            key,
            columns,
            record: ByteRecord::new(),
            writer: WriterBuilder::new().build(),
        })
    }
}

/// The names in the header.
fn columns(reader: &mut Reader<Limited<'_>>) -> Result<Vec<String>, Problem> {
    let header = reader.byte_headers().map_err(|error| problem(1, error))?;
    let mut columns: Vec<String> = Vec::new();
    for name in header {
        check_text(name, 1)?;
        let name = String::from_utf8_lossy(name).into_owned();
        if columns.contains(&name) {
            return Err(Problem::bad(1, format!("two columns are called {name:?}")));
        }
        columns.push(name);
    }
    Ok(columns)
}

/// Where a column is, from 0: by its name, or its number from 1.
fn place(column: &str, names: Option<&[String]>) -> Result<usize, Problem> {
    let named = names.and_then(|names| names.iter().position(|name| name == column));
    let numbered = || {
        let number = column.parse::<usize>().ok()?.checked_sub(1)?;
        (number < names.map_or(usize::MAX, <[String]>::len)).then_some(number)
    };
    named.or_else(numbered).ok_or_else(|| {
        let what = match names {
            Some(names) => format!(
                "there is no column {column:?}; there are: {}, or their numbers from 1 \
                 (is it the --delimiter?)",
                names.join(", ")
            ),
            None => format!(
                "there is no column {column:?}: without a header columns have numbers only, from 1"
            ),
        };
        Problem::bad(1, what)
    })
}

impl Rows for CsvRows<'_> {
    fn read(&mut self, row: &mut Row) -> Result<bool, Problem> {
        let before = self.reader.position().clone();
        // What it has in its buffer comes on top.
        self.reader.get_mut().left = LINE_BYTES_MAX;
        let read = self.reader.read_byte_record(&mut self.record);
        if !read.map_err(|error| problem(before.line(), error))? {
            return Ok(false);
        }
        let at = self.record.position().unwrap_or(&before).clone();
        (row.line, row.text_bytes) = (at.line(), self.reader.position().byte() - before.byte());
        match &self.key {
            KeyField::Line(prefix) => write_line_key(&mut row.key, prefix, row.line)?,
            KeyField::Field { at, column } => {
                let field = self.record.get(*at).unwrap_or_default();
                check_key(field, column, row.line)?;
                row.key.clear();
                row.key.extend_from_slice(field);
            }
        }
        write_record(&mut self.writer, &self.record, &mut row.value);
        check_text(&row.value, row.line)?;
        Ok(true)
    }

    fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }
}

/// Writes a record with commas between its fields, and quotes where they are needed.
fn write_record(writer: &mut Writer, record: &ByteRecord, value: &mut Vec<u8>) {
    // Every byte of a field may be a quote, and is two then; around it are two more, and
    // between it and the next a comma.
    let most = 2 * record.as_slice().len() + 3 * record.len().max(1) + 1;
    value.clear();
    value.resize(most, 0);
    let mut end = 0;
    let mut add = |(result, bytes): (WriteResult, usize)| {
        assert_eq!(result, WriteResult::InputEmpty, "there is room");
        end += bytes;
        end
    };
    let mut at = 0;
    for (index, field) in record.iter().enumerate() {
        if index > 0 {
            at = add(writer.delimiter(&mut value[at..]));
        }
        let (result, _, bytes) = writer.field(field, &mut value[at..]);
        at = add((result, bytes));
    }
    // It closes a quote, and ends with a newline.
    at = add(writer.terminator(&mut value[at..]));
    value.truncate(at - 1);
}

fn problem(line: u64, error: csv::Error) -> Problem {
    let at = error.position().map_or(line, csv::Position::line);
    match error.into_kind() {
        ErrorKind::Io(error) => Problem::io(line, error),
        ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let what = format!("it has {len} fields, and the first record has {expected_len}");
            Problem::bad(at, what)
        }
        other => Problem::bad(at, format!("{other:?}")),
    }
}

/// Fails when a record goes on and on: a quote may be open, and memory is finite.
struct Limited<'a> {
    reader: Box<dyn BufRead + 'a>,
    /// Bytes that may be read for this record.
    left: u64,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let what = format!(
                "the record is longer than {} MiB; is a quote left open?",
                LINE_BYTES_MAX >> 20
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let room = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.reader.read(&mut buffer[..room])?;
        self.left -= read as u64;
        Ok(read)
    }
}
