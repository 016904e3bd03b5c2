//! The records of a part of a file, one after the other.

use std::io;
use std::ops::Range;

use memchr::memchr;

use super::FileKind;
use super::content::Content;
use super::data_file::DataFile;
use super::record_error::RecordError;
use crate::inputs::lines::{LINE_BYTES_MAX, Lines, READ_BYTES};
use crate::records::CsvRecordEnd;

fn open_quote(offset: u64) -> RecordError {
    RecordError::Invalid {
        offset,
        problem: "a quote is still open at the end of the line; if fields go over several \
                  lines, say --multiline"
            .to_string(),
    }
}

/// The records of a part of a file.
pub(super) struct Records {
    pub(super) lines: Lines,
    multiline: bool,
    end: CsvRecordEnd,
}

impl Records {
    /// Those that begin in `part`, whose ends are ends of records.
    pub(super) fn open(file: &DataFile, part: Range<u64>, kind: FileKind) -> io::Result<Self> {
        Self::open_for(file, part, kind, READ_BYTES)
    }

    /// The same, of which `read_bytes` are read at a time.
    pub(super) fn open_for(
        file: &DataFile,
        part: Range<u64>,
        kind: FileKind,
        read_bytes: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            lines: match file.content {
                Content::Plain => Lines::open(&file.path, part, read_bytes)?,
                Content::Gzip => Lines::open_gzip(&file.path, read_bytes)?,
            },
            multiline: matches!(
                kind,
                FileKind::Csv {
                    multiline: true,
                    ..
                }
            ),
            end: CsvRecordEnd::default(),
        })
    }

    /// Puts the next record of any kind into `record` and tells where it begins;
    /// `None` after the last.
    pub(super) fn next_of(
        &mut self,
        kind: FileKind,
        record: &mut Vec<u8>,
    ) -> Result<Option<u64>, RecordError> {
        if matches!(kind, FileKind::Csv { .. }) {
            return self.next(record);
        }
        while let Some(line) = self.lines.next()? {
            if kind == FileKind::JsonLines && line.text.trim_ascii().is_empty() {
                continue;
            }
            record.clear();
            record.extend_from_slice(line.text);
            return Ok(Some(line.offset));
        }
        Ok(None)
    }

    /// Puts the next CSV record into `record` and tells where it begins; `None`
    /// after the last. Empty lines are none.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>, RecordError> {
        record.clear();
        let mut begins = None;
        while let Some(line) = self.lines.next()? {
            if begins.is_some() {
                record.push(b'\n');
            } else if line.text.is_empty() {
                continue;
            }
            let goes_on = begins.is_some();
            let offset = *begins.get_or_insert(line.offset);
            record.extend_from_slice(line.text);
            // A line without a quote in it leaves it at that.
            let is_whole = match memchr(b'"', line.text) {
                None => !goes_on,
                Some(_) => self.end.is_after(line.text, goes_on),
            };
            if is_whole {
                return Ok(Some(offset));
            }
            if !self.multiline {
                return Err(open_quote(offset));
            }
            if record.len() > LINE_BYTES_MAX {
                let problem = format!(
                    "the record is longer than {LINE_BYTES_MAX} bytes: a quote may be missing"
                );
                return Err(RecordError::Invalid { offset, problem });
            }
        }
        match begins {
            Some(offset) => Err(open_quote(offset)),
            None => Ok(None),
        }
    }
}
