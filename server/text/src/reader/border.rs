//! The search for a place where a part of a file may begin: between two records, without reading all
//! before it.
//!
//! Behind a line end there are two possibilities: a record begins there, or the bytes belong to a
//! field in quotes. Both are followed at once, and as a rule the wrong one is refuted within a line
//! or two:
//!
//! ```text
//!   ...7,"two<LF>
//!   lines",x<LF>       a record begins here:   lines"    a quote inside a field: refuted
//!   8,y<LF>            inside of quotes:       lines",x  well formed; the next record is a border
//! ```
//!
//! A field in quotes ends within [`LINE_BYTES_MAX`], so bytes without any quote are decided, too. If
//! both stay possible for long, the file is read from the last border that is known. A sample needs no
//! certain border: [`likely_border`] takes the likelier possibility after few bytes.
//!
//! In a malformed file the place that is returned may be no border. That is never silent: the part
//! before it does not end with a record then, and its reader returns an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::records::{LINE_BYTES_MAX, RecordKind};
use super::{encoding, line_ends};
use crate::csv::{CsvDialect, Machine};

/// Bytes that are read at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// The search behind a place reads this share of the bytes that lie between the last known border
/// and the place. Bytes without quotes may leave both possibilities open, and are read from that
/// border then: all borders of such a file together cost about one reading of it.
const SEARCH_SHARE: u64 = 8;

/// A record is taken to be no longer than this where a likely border is enough. A sample looks at
/// dozens of places, and each of them reads about as much.
const LIKELY_RECORD_BYTES_MAX: u64 = 128 << 10;

/// Returns where the first record begins at or behind `at` in a file of `file_bytes` bytes; the end
/// of the file if there is none. A record begins at `known`, which is before `at`.
///
/// # Errors
/// When the file cannot be read.
pub fn record_border(
    file: &File,
    file_bytes: u64,
    known: u64,
    at: u64,
    kind: RecordKind,
) -> io::Result<u64> {
    Search::new(file, file_bytes, LINE_BYTES_MAX as u64).border(known, at, kind)
}

/// Returns where a record probably begins at or behind `at` in a file of `file_bytes` bytes, by the
/// bytes behind that place alone: few of them, unless a line is longer. Returns the end of the file
/// if no line begins there. A place inside of a long field in quotes may be returned, so a reader has
/// to expect that the records from there on are malformed.
///
/// # Errors
/// When the file cannot be read.
pub fn likely_border(file: &File, file_bytes: u64, at: u64, kind: RecordKind) -> io::Result<u64> {
    Search::new(file, file_bytes, LIKELY_RECORD_BYTES_MAX).likely_border(at, kind)
}

/// Bytes that can be read at any place.
trait ReadAt {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

struct Search<'a, F: ?Sized> {
    file: &'a F,
    file_bytes: u64,
    record_bytes_max: u64,
    /// See [`SEARCH_SHARE`].
    search_share: u64,
    block_bytes: usize,
}

impl<'a, F: ReadAt + ?Sized> Search<'a, F> {
    fn new(file: &'a F, file_bytes: u64, record_bytes_max: u64) -> Self {
        Self {
            file,
            file_bytes,
            record_bytes_max,
            search_share: SEARCH_SHARE,
            block_bytes: BLOCK_BYTES,
        }
    }

    fn border(&self, known: u64, at: u64, kind: RecordKind) -> io::Result<u64> {
        if at == 0 {
            return Ok(0);
        }
        let line = self.line(at)?;
        let RecordKind::Csv(dialect) = kind else {
            return Ok(line);
        };
        if line >= self.file_bytes {
            return Ok(line);
        }
        // A lenient reading refutes nothing.
        if !dialect.lenient_quotes {
            let before_bytes = at.saturating_sub(known);
            let bytes_max = self.record_bytes_max.min(before_bytes / self.search_share);
            if let Some(border) = self.guess(line, dialect, bytes_max)? {
                return Ok(border);
            }
        }
        self.walk(known, at, dialect)
    }

    /// Returns the border that the bytes behind `at` make likely, without a walk.
    fn likely_border(&self, at: u64, kind: RecordKind) -> io::Result<u64> {
        if at == 0 {
            return Ok(0);
        }
        let line = self.line(at)?;
        match kind {
            RecordKind::Csv(dialect) if !dialect.lenient_quotes && line < self.file_bytes => {
                let guess = self.guess(line, dialect, self.record_bytes_max)?;
                Ok(guess.unwrap_or(line))
            }
            RecordKind::Csv(_) | RecordKind::Text | RecordKind::JsonLines => Ok(line),
        }
    }

    /// The bytes at `at`; none at the end of the file.
    fn block<'b>(&self, buffer: &'b mut [u8], at: u64) -> io::Result<&'b [u8]> {
        let left = self.file_bytes.saturating_sub(at);
        let room = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.file.read_at(&mut buffer[..room], at)?;
        Ok(&buffer[..read])
    }

    /// Returns where the first line begins at or behind `at`, which is not 0.
    fn line(&self, at: u64) -> io::Result<u64> {
        let mut buffer = vec![0; self.block_bytes];
        // With the byte before: a line may begin right there.
        let mut place = at - 1;
        let mut after_cr = false;
        loop {
            let bytes = self.block(&mut buffer, place)?;
            let Some(&first) = bytes.first() else {
                return Ok(self.file_bytes);
            };
            if after_cr {
                return Ok(place + u64::from(first == b'\n'));
            }
            if let Some(found) = line_ends::find(bytes) {
                match line_ends::length(bytes, found, false) {
                    Some(line_end_bytes) => return Ok(place + (found + line_end_bytes) as u64),
                    None => after_cr = true,
                }
            }
            place += bytes.len() as u64;
        }
    }

    /// Returns the first border at or behind `line`, which is behind a line end, from about
    /// `bytes_max` of the bytes behind it; `None` if these leave both possibilities open.
    fn guess(&self, line: u64, dialect: CsvDialect, bytes_max: u64) -> io::Result<Option<u64>> {
        let mut outside = Reading::new(Machine::new(dialect), dialect, line, line);
        let mut inside = Reading::new(Machine::inside_quotes(dialect), dialect, line, line);
        let mut buffer = vec![0; self.block_bytes];
        let mut place = line;
        loop {
            let bytes = self.block(&mut buffer, place)?;
            let is_end = bytes.is_empty();
            for reading in [&mut outside, &mut inside] {
                if is_end {
                    reading.end(place);
                } else {
                    reading.go_on(bytes, place, self.record_bytes_max);
                }
            }
            if inside.is_refuted {
                return Ok(Some(line));
            }
            if outside.is_refuted && (inside.border.is_some() || is_end) {
                return Ok(Some(inside.border.unwrap_or(self.file_bytes)));
            }
            place += bytes.len() as u64;
            if is_end || (!outside.is_refuted && place - line > bytes_max) {
                return Ok(None);
            }
        }
    }

    /// Returns the first border at or behind `at` by reading all records from `known` on.
    fn walk(&self, known: u64, at: u64, dialect: CsvDialect) -> io::Result<u64> {
        let mut buffer = vec![0; self.block_bytes];
        let mut place = known;
        if known == 0 {
            place = encoding::mark_bytes(self.block(&mut buffer, 0)?) as u64;
        }
        let mut reading = Reading::new(Machine::new(dialect), dialect, place, at);
        loop {
            let bytes = self.block(&mut buffer, place)?;
            if bytes.is_empty() {
                reading.end(place);
                return Ok(reading.border.unwrap_or(self.file_bytes));
            }
            reading.go_on(bytes, place, self.record_bytes_max);
            if let Some(border) = reading.border {
                return Ok(border);
            }
            if reading.is_refuted {
                // The file is malformed, which the reader of the part reports.
                return self.line(at);
            }
            place += bytes.len() as u64;
        }
    }
}

/// A reading of records from a place on, which the bytes may refute.
struct Reading {
    machine: Machine,
    dialect: CsvDialect,
    /// The begin of the record that is being read.
    record: u64,
    /// The record has ended with a CR, and its LF may follow.
    after_cr: bool,
    /// The first place that counts as a border.
    from: u64,
    /// The first record that begins at or behind `from`, but for the one that the reading began with.
    border: Option<u64>,
    /// The bytes are malformed if this reading is right.
    is_refuted: bool,
}

impl Reading {
    fn new(machine: Machine, dialect: CsvDialect, record: u64, from: u64) -> Self {
        Self {
            machine,
            dialect,
            record,
            after_cr: false,
            from,
            border: None,
            is_refuted: false,
        }
    }

    /// Reads on: `bytes`, which lie at `place`.
    fn go_on(&mut self, bytes: &[u8], place: u64, record_bytes_max: u64) {
        let mut at = 0;
        while at < bytes.len() && !self.is_refuted {
            if self.after_cr {
                at += usize::from(bytes[at] == b'\n');
                self.begin_record(place + at as u64);
                continue;
            }
            let found = self.machine.scan(&bytes[at..]);
            let ended_at = match found {
                Ok(found) => at + found.unwrap_or(bytes.len() - at),
                Err(_) => {
                    self.is_refuted = true;
                    return;
                }
            };
            self.is_refuted = place + ended_at as u64 - self.record > record_bytes_max;
            let Some(&line_end) = bytes.get(ended_at) else {
                return;
            };
            at = ended_at + 1;
            if line_end == b'\r' {
                self.after_cr = true;
            } else {
                self.begin_record(place + at as u64);
            }
        }
    }

    /// Ends the reading with the file, at `place`.
    fn end(&mut self, place: u64) {
        if self.after_cr {
            self.begin_record(place);
        } else if self.machine.finish().is_err() {
            self.is_refuted = true;
        }
    }

    fn begin_record(&mut self, at: u64) {
        self.machine = Machine::new(self.dialect);
        self.after_cr = false;
        self.record = at;
        if at >= self.from {
            self.border.get_or_insert(at);
        }
    }
}

#[cfg(test)]
mod tests;
