//! The search for a border between two records, at which a part of a file may begin, without reading
//! everything before it.
//!
//! After a line end there are two possibilities: a record begins there, or the bytes belong to a field
//! in quotes. Both are followed at once, and usually the wrong one is refuted within a line or two:
//!
//! ```text
//!   ...7,"two<LF>
//!   lines",x<LF>       a record begins here:   lines"    a quote inside a field: refuted
//!   8,y<LF>            inside quotes:          lines",x  well formed; the next record is a border
//! ```
//!
//! A field in quotes ends within [`LINE_BYTES_MAX`], so bytes without any quote are decided too. If
//! both possibilities remain for long, the file is read from the last known border. A sample does not
//! need a certain border: [`likely_border`] takes the likelier possibility after few bytes.
//!
//! In a malformed file the returned place may not be a border. This is never silent: then the part
//! before it does not end with a record, and its reader returns an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::records::{LINE_BYTES_MAX, RecordKind};
use super::{encoding, line_ends};
use crate::csv::{CsvDialect, Machine};

/// The number of bytes per read.
const BLOCK_BYTES: usize = 64 << 10;

/// Limits the first phase of a search for the border at or after an offset. This phase reads from
/// the offset on. It gives up if the bytes leave it open whether they lie in a field in quotes, for
/// example because they contain no quotes. It does so at the latest after about the distance
/// between the last known border and the offset, divided by this number. The second phase then
/// reads the file from the known border on. With the limit, the searches for all borders of a file
/// without quotes read it about once.
const SEARCH_SHARE: u64 = 8;

/// The maximal length of a record that [`likely_border`] assumes. It is small because a sample calls
/// [`likely_border`] at dozens of places, and each call may read about this many bytes.
const LIKELY_RECORD_BYTES_MAX: u64 = 128 << 10;

/// Returns the offset of the first record at or after `at` in a file of `file_bytes` bytes; the end of
/// the file if there is none. `known` must be the offset of a record at or before `at`.
///
/// # Errors
/// If the file cannot be read.
pub fn record_border(
    file: &File,
    file_bytes: u64,
    known: u64,
    at: u64,
    kind: RecordKind,
) -> io::Result<u64> {
    Search::new(file, file_bytes, LINE_BYTES_MAX as u64).border(known, at, kind)
}

/// Returns the probable offset of the first record at or after `at` in a file of `file_bytes` bytes.
/// Reads at most a few hundred KiB from about `at` on, unless a line is longer. Returns the end of the file
/// if no line begins at or after `at`. The returned offset may lie inside a long field in quotes, so the
/// caller must expect malformed records.
///
/// # Errors
/// If the file cannot be read.
pub fn likely_border(file: &File, file_bytes: u64, at: u64, kind: RecordKind) -> io::Result<u64> {
    Search::new(file, file_bytes, LIKELY_RECORD_BYTES_MAX).likely_border(at, kind)
}

/// A source of bytes at any offset.
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
    /// The divisor of the number of bytes that a search may read: [`SEARCH_SHARE`], or another in
    /// tests.
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
        // Every text is well formed in a lenient dialect, so nothing can be refuted.
        if !dialect.lenient_quotes {
            let before_bytes = at.saturating_sub(known);
            let bytes_max = self.record_bytes_max.min(before_bytes / self.search_share);
            if let Some(border) = self.guess(line, dialect, bytes_max)? {
                return Ok(border);
            }
        }
        self.walk(known, at, dialect)
    }

    /// Returns the probable start of the first record at or after `at`: see the function
    /// [`likely_border`].
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

    /// Returns the bytes at `at`; none at the end of the file.
    fn block<'b>(&self, buffer: &'b mut [u8], at: u64) -> io::Result<&'b [u8]> {
        let left = self.file_bytes.saturating_sub(at);
        let room = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.file.read_at(&mut buffer[..room], at)?;
        Ok(&buffer[..read])
    }

    /// Returns the offset of the first line that begins at or after `at`; the end of the file if
    /// none does. `at` must be above 0.
    fn line(&self, at: u64) -> io::Result<u64> {
        let mut buffer = vec![0; self.block_bytes];
        // Includes the byte before: a line may begin exactly at `at`.
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

    /// Returns the first border (start of a record) at or after `line`, the start of a line. Reads
    /// only from `line` on. Returns `None` if about `bytes_max` bytes leave it open whether `line`
    /// lies in a field in quotes. If the bytes show that it does, reads on to the next border.
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

    /// Returns the first border (start of a record) at or after `at`, by reading all records from
    /// `known`, the start of a record, on. If one of them is malformed, returns the start of the first
    /// line at or after `at`.
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

/// A reading of the file from an offset on, under a hypothesis: that a record begins at the offset, or
/// that the offset lies in a field in quotes. It finds the next border, unless the bytes refute the
/// hypothesis.
struct Reading {
    machine: Machine,
    dialect: CsvDialect,
    /// The start of the current record.
    record: u64,
    /// True if the record has ended with a CR, whose LF may follow.
    after_cr: bool,
    /// The offset from which on the start of a record is searched for.
    from: u64,
    /// The first start of a record at or after `from`; `None` until it is found. The record with
    /// which the reading began does not count, because its start is only assumed.
    border: Option<u64>,
    /// True if the bytes refute the hypothesis: if it were true, they would be malformed, or a
    /// record would be too long.
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

    /// Reads on in `bytes`, which begin at the offset `place` of the file. A record of more than
    /// `record_bytes_max` bytes refutes the hypothesis.
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

    /// Notes that the file ends at the offset `place`. If the last byte was the CR of a line end, no LF
    /// follows it, and `place` counts as the start of a record. A quote that is still open refutes the
    /// hypothesis.
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
