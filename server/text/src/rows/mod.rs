//! A file as rows, one after the other, each with the line that it begins in.
//!
//! ```text
//!   source::open ─> Lines ─> text: the line
//!        │            └────> json: the line, and a member of the object in it
//!        └─────────────────> csv: a record, and a field of it
//! ```

mod csv;
mod json;
mod lines;

use std::io::BufRead;

use self::csv::CsvRows;
use self::json::JsonRows;
use self::lines::LineRows;
use super::error::Problem;
use super::format::TextFormat;
use super::options::LoadOptions;
use super::walk::TextFile;

/// The longest line, or CSV record, in bytes: 16 MiB.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// Digits of a line number: always as many, so that keys are in the order of the
/// lines and a line keeps its key however long the file grows.
const NUMBER_DIGITS: usize = 12;

/// Lines of a file at most: those that have a number. A file with more of them is
/// larger than a terabyte.
const LINES_MAX: u64 = 10u64.pow(NUMBER_DIGITS as u32) - 1;

/// One row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The line that it begins in, from 1.
    pub(super) line: u64,
    /// Its bytes in the file, the line's end included.
    pub(super) text_bytes: u64,
}

/// Reads the rows of a file in their order.
pub(super) trait Rows {
    /// Puts the next row in the place of the last one; false at the end. After a problem
    /// it is not asked again.
    fn read(&mut self, row: &mut Row) -> Result<bool, Problem>;

    /// The names of the columns, where a header says them.
    fn columns(&self) -> Option<&[String]> {
        None
    }
}

/// The rows of `file`, whose bytes come from `reader`.
///
/// # Errors
/// When its header is wrong, or lacks the key column.
pub(super) fn rows<'a>(
    file: &TextFile,
    format: TextFormat,
    options: &LoadOptions,
    reader: Box<dyn BufRead + 'a>,
) -> Result<Box<dyn Rows + 'a>, Problem> {
    let key = match &options.key {
        Some(column) => Key::Column(column.clone()),
        None => Key::Line(file.key_prefix()),
    };
    Ok(match format {
        TextFormat::Text => Box::new(LineRows::new(reader, key)),
        TextFormat::JsonLines => Box::new(JsonRows::new(reader, key)),
        TextFormat::Csv => {
            let delimiter = options.delimiter_of(&file.path);
            Box::new(CsvRows::new(reader, key, delimiter, options.header)?)
        }
    })
}

/// What the key of a row is.
#[derive(Debug)]
enum Key {
    /// These bytes, and the number of its line.
    Line(Vec<u8>),
    /// What it has in this column.
    Column(String),
}

/// Writes the key of a line: `docs/wal.md:000000000012`.
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

/// Checks a key that was read from a column.
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

/// Checks that bytes are UTF-8 without NUL.
fn check_text(bytes: &[u8], line: u64) -> Result<(), Problem> {
    if memchr::memchr(0, bytes).is_some() {
        let what = "it has a NUL byte: this is a binary file, or text in UTF-16";
        return Err(Problem::bad(line, what));
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => {
            let at = error.valid_up_to() + 1;
            let what = format!(
                "byte {at} is not UTF-8: this is a binary file, or text in another encoding, \
                 to be converted first (iconv -f LATIN1 -t UTF-8)"
            );
            Err(Problem::bad(line, what))
        }
    }
}

#[cfg(test)]
mod tests;
