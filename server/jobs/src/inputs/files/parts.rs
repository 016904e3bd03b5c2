//! The parts into which files are cut, and their form in the payload of a split.

use std::ops::Range;

use ebb_scheduler::runtime::{Split, TaskError};
use ebb_text::reader::Content;

use super::data_file::DataFile;
use super::{FileKind, FilesInput};
use crate::inputs::SPLIT_BYTES_MIN;

/// A part of a file, which the payload of a split has as three numbers, LE:
///
/// ```text
///   number of the file, u32 | first byte, u64 | byte after the last, u64
/// ```
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) file: u32,
    pub(super) bytes: Range<u64>,
}

impl Part {
    const ENCODED_BYTES: usize = 20;

    /// Decodes the list of parts of files that a split consists of.
    pub(super) fn all(split: &Split) -> impl Iterator<Item = Self> {
        let encoded = split.payload.chunks_exact(Self::ENCODED_BYTES);
        encoded.map(Self::decode)
    }

    pub(super) fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = self.file.to_le_bytes().to_vec();
        payload.extend_from_slice(&self.bytes.start.to_le_bytes());
        payload.extend_from_slice(&self.bytes.end.to_le_bytes());
        payload
    }

    /// Decodes one part from its bytes in the payload of a split.
    ///
    /// # Panics
    /// For bytes that [`Part::encode`] did not write.
    fn decode(payload: &[u8]) -> Self {
        let number =
            |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        Self {
            file: u32::from_le_bytes(payload[..4].try_into().expect("four bytes")),
            bytes: number(4)..number(12),
        }
    }
}

impl FilesInput {
    /// Returns whether parts of a file can be read independently of each other.
    pub(super) fn is_splittable(&self, file: &DataFile) -> bool {
        let is_lenient = matches!(
            self.kind,
            FileKind::Csv {
                lenient_quotes: true,
                ..
            }
        );
        !is_lenient && file.content == Content::Plain
    }

    /// Cuts the files into parts, and groups the parts into splits of about equal size.
    pub(super) fn cut(&self) -> Result<Vec<Vec<Part>>, TaskError> {
        let total_bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        let split_bytes = total_bytes.div_ceil(self.splits as u64);
        self.cut_by(split_bytes.max(SPLIT_BYTES_MIN))
    }

    /// Cuts the files into parts, and groups the parts into splits of about `split_bytes` each.
    pub(super) fn cut_by(&self, split_bytes: u64) -> Result<Vec<Vec<Part>>, TaskError> {
        let mut splits = Vec::new();
        let mut parts = Vec::new();
        let mut room_bytes = split_bytes;
        for (index, file) in (0..).zip(&self.files) {
            let mut from = 0;
            while from < file.bytes {
                let left = file.bytes - from;
                let to = if left <= room_bytes || !self.is_splittable(file) {
                    file.bytes
                } else {
                    let kind = self.kind.of_file(&file.path);
                    let mut at = from + room_bytes;
                    if from == 0 && self.kind.has_header() {
                        // The part that begins at 0 must contain the header, because only the
                        // reader of that part skips the header. Blank lines may precede it.
                        at = at.max(self.header_at(file)? + 1);
                    }
                    let border = file.border(from, at, kind);
                    border.map_err(|e| file.failed(e))?
                };
                parts.push(Part {
                    file: index,
                    bytes: from..to,
                });
                room_bytes = room_bytes.saturating_sub(to - from);
                if room_bytes == 0 {
                    splits.push(std::mem::take(&mut parts));
                    room_bytes = split_bytes;
                }
                from = to;
            }
        }
        if !parts.is_empty() || splits.is_empty() {
            splits.push(parts);
        }
        Ok(splits)
    }
}
