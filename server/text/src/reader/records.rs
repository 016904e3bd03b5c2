//! A reader of the records of a file, or of a part of it, in their order.

use std::io::{self, Read};
use std::ops::Range;

use super::content::ForeignContent;
use super::{encoding, gzip, json, line_ends};
use crate::counts::uneven;
use crate::csv::{CsvDialect, CsvProblem, Machine, Malformed};

/// The maximal length of a line or CSV record: 64 MiB. A longer one is an error, because a record
/// must fit into memory.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// The number of bytes per read, unless a caller chooses another.
const READ_BYTES: usize = 256 << 10;

/// The kind of the records of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Lines.
    Text,
    /// CSV records, which may contain several lines. Empty lines are not records.
    Csv(CsvDialect),
    /// Lines, each of them a JSON object. Blank lines are not records.
    JsonLines,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The offset of the record's first byte in the whole text, also if only a part is read.
    pub offset: u64,
    /// The line in which the record begins. The line at which reading began is 1.
    pub line: u64,
    /// The text of the record without its line end.
    pub text: &'a [u8],
    /// The number of bytes from the end of the previous record to the end of this one: blank lines
    /// before it and line ends count.
    pub bytes: u64,
}

/// The reason why there is no next record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("line {line}: {source}")]
    Io {
        /// The line at which reading failed.
        line: u64,
        source: io::Error,
    },
    /// The content is malformed.
    #[error("line {line}: {problem}")]
    Malformed {
        /// The line of the problem, counted as [`Record::line`].
        line: u64,
        /// A message about the problem and its remedy.
        problem: String,
    },
}

/// Reads the records of a text, or of a part that begins and ends between records.
pub struct Records<'a> {
    source: Box<dyn Read + 'a>,
    kind: RecordKind,
    /// The number of bytes of the part that were not read from the source yet; `None` if the text is read as
    /// a whole.
    left_bytes: Option<u64>,
    read_bytes: usize,
    buffer: Vec<u8>,
    /// The range of `buffer` with the bytes behind the last returned record.
    unread: Range<usize>,
    /// The offset of `unread` in the text.
    offset: u64,
    /// The line in which `unread` begins.
    line: u64,
    has_begun: bool,
    is_at_end: bool,
    /// The number of fields that each CSV record must have; `None` until the first record sets it.
    fields: Option<usize>,
    record_bytes_max: usize,
}

/// A record at the start of the unread bytes.
struct Found {
    text_bytes: usize,
    /// The record's length in bytes, line end included.
    all_bytes: usize,
    fields: usize,
    /// True if a field is in quotes, so that the record may contain several lines.
    has_quotes: bool,
}

/// A search for the end of a record.
enum Search {
    Line { searched_bytes: usize },
    Csv(Machine),
}

impl Search {
    fn new(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Csv(dialect) => Self::Csv(Machine::new(dialect)),
            RecordKind::Text | RecordKind::JsonLines => Self::Line { searched_bytes: 0 },
        }
    }

    /// Searches those bytes of `unread` that were not searched before. Returns the index, in
    /// `unread`, of the line end that ends the record; `None` if more bytes are needed.
    fn go_on(&mut self, unread: &[u8]) -> Result<Option<usize>, Malformed> {
        match self {
            Self::Line { searched_bytes } => {
                let found = line_ends::find(&unread[*searched_bytes..]);
                let found = found.map(|at| *searched_bytes + at);
                *searched_bytes = unread.len();
                Ok(found)
            }
            Self::Csv(machine) => {
                let searched = machine.bytes();
                let found = machine.scan(&unread[searched..])?;
                Ok(found.map(|at| searched + at))
            }
        }
    }

    /// Ends the record at the end of the text. Returns an error if a quote is still open there.
    fn finish(&self) -> Result<(), Malformed> {
        match self {
            Self::Line { .. } => Ok(()),
            Self::Csv(machine) => machine.finish(),
        }
    }

    fn found(&self, text_bytes: usize, all_bytes: usize) -> Found {
        let (fields, has_quotes) = match self {
            Self::Line { .. } => (0, false),
            Self::Csv(machine) => (machine.fields(), machine.has_quotes()),
        };
        Found {
            text_bytes,
            all_bytes,
            fields,
            has_quotes,
        }
    }
}

impl<'a> Records<'a> {
    /// Creates a reader of a whole text. A byte order mark at its start is skipped.
    pub fn new(source: impl Read + 'a, kind: RecordKind) -> Self {
        Self::of(Box::new(source), kind, 0, None)
    }

    /// Creates a reader of a part of a text. `source` begins with the first byte of the part. A
    /// part that begins at 0 may begin with a byte order mark. Lines are counted from the start of
    /// the part.
    pub fn of_part(source: impl Read + 'a, part: Range<u64>, kind: RecordKind) -> Self {
        let bytes = part.end.saturating_sub(part.start);
        Self::of(Box::new(source), kind, part.start, Some(bytes))
    }

    fn of(
        source: Box<dyn Read + 'a>,
        kind: RecordKind,
        offset: u64,
        left_bytes: Option<u64>,
    ) -> Self {
        Self {
            source,
            kind,
            left_bytes,
            read_bytes: READ_BYTES,
            buffer: Vec::new(),
            unread: 0..0,
            offset,
            line: 1,
            has_begun: false,
            is_at_end: false,
            fields: None,
            record_bytes_max: LINE_BYTES_MAX,
        }
    }

    /// Sets the initial size of the buffer in bytes, at least one. Each read requests the free part of the
    /// buffer, which grows for a longer record. Must be called before the first record is read, because the
    /// buffer is allocated then.
    #[must_use]
    pub fn reading(mut self, bytes: usize) -> Self {
        self.read_bytes = bytes.max(1);
        self
    }

    /// Sets the number of fields that each CSV record must have. `None`, the default: as many as the
    /// first record has.
    #[must_use]
    pub fn with_fields(mut self, fields: Option<usize>) -> Self {
        self.fields = fields;
        self
    }

    /// Returns the next record; `None` after the last one.
    ///
    /// # Errors
    /// If the source cannot be read, ends before the end of the part, or contains a malformed
    /// record. The caller must not read on after an error.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, RecordError> {
        let begin = self.offset;
        if !self.has_begun {
            self.begin()?;
        }
        let found = loop {
            let Some(found) = self.find()? else {
                return Ok(None);
            };
            if !self.is_blank(&found) {
                break found;
            }
            self.pass(found.all_bytes, 1);
        };
        self.check(&found)?;
        let (offset, line) = (self.offset, self.line);
        let text = self.unread.start..self.unread.start + found.text_bytes;
        let inner_line_ends = if found.has_quotes {
            line_ends::count(&self.buffer[text.clone()])
        } else {
            0
        };
        self.pass(found.all_bytes, inner_line_ends + 1);
        Ok(Some(Record {
            offset,
            line,
            text: &self.buffer[text],
            bytes: self.offset - begin,
        }))
    }

    /// Skips the byte order mark at the start of the text. Returns an error if it is that of another
    /// encoding than UTF-8.
    fn begin(&mut self) -> Result<(), RecordError> {
        self.has_begun = true;
        if self.offset > 0 {
            return Ok(());
        }
        while self.unread.len() < encoding::MARK_BYTES_MAX && !self.is_at_end {
            self.fill()?;
        }
        let start = &self.buffer[self.unread.clone()];
        if let Some(encoding) = encoding::foreign_encoding(start) {
            let problem = format!("it {}", ForeignContent::Encoding(encoding));
            return Err(self.malformed(0, problem));
        }
        let mark_bytes = encoding::mark_bytes(start);
        self.pass(mark_bytes, 0);
        Ok(())
    }

    /// Finds the next line or CSV record, which may be blank. `None` at the end of the text.
    fn find(&mut self) -> Result<Option<Found>, RecordError> {
        let mut search = Search::new(self.kind);
        let mut text_bytes = None;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if text_bytes.is_none() {
                let found = search.go_on(unread);
                text_bytes = found.map_err(|malformed| self.malformed_csv(malformed))?;
            }
            // Checked before more is read, so that the buffer stays within its bound.
            if text_bytes.unwrap_or(unread.len()) > self.record_bytes_max {
                return Err(self.too_long(&search));
            }
            match text_bytes {
                Some(text_bytes) => {
                    let line_end = line_ends::length(unread, text_bytes, self.is_at_end);
                    if let Some(bytes) = line_end {
                        return Ok(Some(search.found(text_bytes, text_bytes + bytes)));
                    }
                }
                None if self.is_at_end && unread.is_empty() => return Ok(None),
                None if self.is_at_end => {
                    let ended = search.finish();
                    ended.map_err(|malformed| self.malformed_csv(malformed))?;
                    return Ok(Some(search.found(unread.len(), unread.len())));
                }
                None => {}
            }
            self.fill()?;
        }
    }

    fn is_blank(&self, found: &Found) -> bool {
        match self.kind {
            RecordKind::Text => false,
            RecordKind::Csv(_) => found.text_bytes == 0,
            RecordKind::JsonLines => self.text(found).trim_ascii().is_empty(),
        }
    }

    fn text(&self, found: &Found) -> &[u8] {
        &self.buffer[self.unread.start..][..found.text_bytes]
    }

    /// Checks that a record is UTF-8 without NUL, that a JSON line is an object, and that a CSV record has
    /// the required number of fields.
    fn check(&mut self, found: &Found) -> Result<(), RecordError> {
        let text = self.text(found);
        if let Some((at, problem)) = encoding::problem_of(text) {
            return Err(self.malformed(at, problem));
        }
        match self.kind {
            RecordKind::Text => Ok(()),
            RecordKind::JsonLines => {
                json::check_object(text).map_err(|problem| self.malformed(0, problem))
            }
            RecordKind::Csv(_) => {
                let expected = *self.fields.get_or_insert(found.fields);
                if found.fields == expected {
                    return Ok(());
                }
                Err(self.malformed(0, uneven("it", found.fields, expected)))
            }
        }
    }

    /// Removes from `unread` its first `bytes` bytes, which contain `line_ends` line ends.
    fn pass(&mut self, bytes: usize, line_ends: u64) {
        self.unread.start += bytes;
        self.offset += bytes as u64;
        self.line += line_ends;
    }

    /// Reads more bytes, or detects the end of the text.
    fn fill(&mut self) -> Result<(), RecordError> {
        if self.left_bytes == Some(0) {
            self.is_at_end = true;
            return Ok(());
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            let doubled = self.read_bytes.max(2 * self.buffer.len());
            // This exceeds the unread bytes, because of the check in `find`.
            let bytes_max = self.record_bytes_max + 2 + self.read_bytes;
            self.buffer.resize(doubled.min(bytes_max), 0);
        }
        let room = &mut self.buffer[self.unread.end..];
        let left = self.left_bytes.and_then(|left| usize::try_from(left).ok());
        let bytes = left.map_or(room.len(), |left| left.min(room.len()));
        let read = loop {
            match self.source.read(&mut room[..bytes]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match (read, self.left_bytes) {
            (Err(source), _) => match gzip::problem_of(&source) {
                Some(problem) => Err(self.malformed(self.unread.len(), problem)),
                None => Err(self.failed(source)),
            },
            (Ok(0), None) => {
                self.is_at_end = true;
                Ok(())
            }
            (Ok(0), Some(_)) => Err(self.failed(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ))),
            (Ok(read), left) => {
                self.left_bytes = left.map(|left| left - read as u64);
                self.unread.end += read;
                Ok(())
            }
        }
    }

    fn failed(&self, source: io::Error) -> RecordError {
        let line = self.line;
        RecordError::Io { line, source }
    }

    /// Returns the error for a problem at the byte with the index `at` in `unread`.
    fn malformed(&self, at: usize, problem: String) -> RecordError {
        let before = &self.buffer[self.unread.start..][..at];
        RecordError::Malformed {
            line: self.line + line_ends::count(before),
            problem,
        }
    }

    fn malformed_csv(&self, malformed: Malformed) -> RecordError {
        let Malformed { at, problem } = malformed;
        let lenient = "--lenient-quotes reads malformed quotes as text";
        let problem = match problem {
            CsvProblem::OpenQuote => {
                format!("a quote is still open at the end of the file; {lenient}")
            }
            problem => format!(
                "{problem}: a field with quotes stands in quotes, and each quote in it is \
                 written twice; {lenient}"
            ),
        };
        self.malformed(at, problem)
    }

    fn too_long(&self, search: &Search) -> RecordError {
        let mut problem = format!("it is longer than {} MiB", self.record_bytes_max >> 20);
        if let Search::Csv(machine) = search
            && machine.open_quote().is_some()
        {
            problem.push_str("; is a quote left open?");
        }
        self.malformed(0, problem)
    }
}

#[cfg(test)]
mod tests;
