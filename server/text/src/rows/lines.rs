//! Lines of text.

use std::io::{BufRead, Read};

use super::{Key, LINE_BYTES_MAX, Row, Rows, check_text, write_line_key};
use crate::error::Problem;

/// Checked lines, in one buffer.
pub(super) struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    number: u64,
}

/// A line without its end (`\n` or `\r\n`).
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    /// From 1.
    pub(super) number: u64,
    /// With its end.
    pub(super) bytes: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(reader: Box<dyn BufRead + 'a>) -> Self {
        Self {
            reader,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The next line; `None` after the last one. No byte of a UTF-8 character looks like
    /// a newline, so lines can be judged one by one.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, Problem> {
        let (line, number) = (&mut self.line, self.number + 1);
        line.clear();
        let mut limited = (&mut self.reader).take(LINE_BYTES_MAX + 2);
        let read = limited.read_until(b'\n', line);
        let bytes = read.map_err(|error| Problem::io(number, error))? as u64;
        if bytes == 0 {
            return Ok(None);
        }
        let mut text = &line[..];
        if let Some(ended) = text.strip_suffix(b"\n") {
            text = ended.strip_suffix(b"\r").unwrap_or(ended);
        }
        // First: what is cut off may end within a character.
        if text.len() as u64 > LINE_BYTES_MAX {
            let what = format!("it is longer than {} MiB", LINE_BYTES_MAX >> 20);
            return Err(Problem::bad(number, what));
        }
        check_text(text, number)?;
        self.number = number;
        Ok(Some(Line {
            text,
            number,
            bytes,
        }))
    }
}

/// Every line is a row.
pub(super) struct LineRows<'a> {
    lines: Lines<'a>,
    key: Key,
}

impl<'a> LineRows<'a> {
    pub(super) fn new(reader: Box<dyn BufRead + 'a>, key: Key) -> Self {
        let lines = Lines::new(reader);
        Self { lines, key }
    }
}

impl Rows for LineRows<'_> {
    fn read(&mut self, row: &mut Row) -> Result<bool, Problem> {
        let prefix = match &self.key {
            Key::Line(prefix) => prefix,
            Key::Column(column) => {
                let what = format!("there is no column {column:?} in a line of text");
                return Err(Problem::bad(1, what));
            }
        };
        let Some(line) = self.lines.next()? else {
            return Ok(false);
        };
        write_line_key(&mut row.key, prefix, line.number)?;
        row.value.clear();
        row.value.extend_from_slice(line.text);
        (row.line, row.text_bytes) = (line.number, line.bytes);
        Ok(true)
    }
}
