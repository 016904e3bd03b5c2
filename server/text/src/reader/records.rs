//! The records of a file, or of a part of it, one after the other.

use std::io::{self, Read};
use std::ops::Range;

use super::content::ForeignContent;
use super::{encoding, gzip, json, line_ends};
use crate::csv::{CsvDialect, CsvProblem, Machine, Malformed};

/// The longest line or CSV record, in bytes: 64 MiB. A longer one is an error, since a record has
/// to fit into memory.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read at a time, unless a caller chooses.
const READ_BYTES: usize = 256 << 10;

/// The kind of records that a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Lines.
    Text,
    /// CSV records, also over several lines. Empty lines are none.
    Csv(CsvDialect),
    /// Lines, each of them a JSON object. Blank lines are none.
    JsonLines,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The place of its first byte in the text.
    pub offset: u64,
    /// The line in which it begins. The line in which the reading began is 1.
    pub line: u64,
    /// The record as it is written, without its line end.
    pub text: &'a [u8],
    /// The bytes from the end of the record before to the end of this one, line ends included.
    pub bytes: u64,
}

/// The reason why there is no next record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("line {line}: {source}")]
    Io {
        /// The line that was to be read.
        line: u64,
        /// The answer of the system.
        source: io::Error,
    },
    /// The content is not what it should be.
    #[error("line {line}: {problem}")]
    Malformed {
        /// The line in which the problem is, counted as [`Record::line`].
        line: u64,
        /// A sentence about the problem, and what to do about it.
        problem: String,
    },
}

/// Reads the records of a text, or of a part of it that begins and ends between records.
pub struct Records<'a> {
    source: Box<dyn Read + 'a>,
    kind: RecordKind,
    /// Bytes of the part that have not been read; `None`: all until the source ends.
    left_bytes: Option<u64>,
    read_bytes: usize,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read and not been used.
    unread: Range<usize>,
    /// The place of `unread` in the text.
    offset: u64,
    /// The line in which `unread` begins.
    line: u64,
    has_begun: bool,
    is_at_end: bool,
    /// The number of fields that each CSV record must have.
    fields: Option<usize>,
    record_bytes_max: usize,
}

/// The place of a record at the begin of the unread bytes.
struct Found {
    text_bytes: usize,
    /// With its line end.
    all_bytes: usize,
    fields: usize,
    /// It may go over several lines.
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

    /// Searches the bytes of `unread` that were not searched before. Returns the place of the line
    /// end.
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

    /// Ends the record where the text ends.
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
    /// The records of a whole text. A byte order mark at its start is passed over.
    pub fn new(source: impl Read + 'a, kind: RecordKind) -> Self {
        Self::of(Box::new(source), kind, 0, None)
    }

    /// The records of a part of a text; `source` stands at its first byte. A part that begins at 0
    /// may begin with a byte order mark. Lines are counted from the begin of the part.
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

    /// Sets how many bytes are read at a time, at least one. Before the first record.
    #[must_use]
    pub fn reading(mut self, bytes: usize) -> Self {
        self.read_bytes = bytes.max(1);
        self
    }

    /// Sets how many fields each CSV record must have. Without this, as many as the first one.
    #[must_use]
    pub fn with_fields(mut self, fields: Option<usize>) -> Self {
        self.fields = fields;
        self
    }

    /// Returns the next record; `None` after the last one.
    ///
    /// # Errors
    /// When the source cannot be read, ends before the part, or has no record of the kind. The
    /// reading is over then.
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

    /// Passes over the byte order mark of a text.
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

    /// Finds the next line or CSV record, which may be blank. `None` at the end.
    fn find(&mut self) -> Result<Option<Found>, RecordError> {
        let mut search = Search::new(self.kind);
        let mut text_bytes = None;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if text_bytes.is_none() {
                let found = search.go_on(unread);
                text_bytes = found.map_err(|malformed| self.malformed_csv(malformed))?;
            }
            // Before more is read, so that the buffer stays within its bound.
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

    /// Checks the content of a record.
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
                let found = found.fields;
                let problem = format!("it has {found} fields, and there are {expected} columns");
                Err(self.malformed(0, problem))
            }
        }
    }

    /// Uses up unread bytes.
    fn pass(&mut self, bytes: usize, line_ends: u64) {
        self.unread.start += bytes;
        self.offset += bytes as u64;
        self.line += line_ends;
    }

    /// Reads on, or finds that the text has ended.
    fn fill(&mut self) -> Result<(), RecordError> {
        if self.left_bytes == Some(0) {
            self.is_at_end = true;
            return Ok(());
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            let doubled = self.read_bytes.max(2 * self.buffer.len());
            // Always more than is unread, by the check in `find`.
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

    /// A problem at a byte of the unread ones.
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
