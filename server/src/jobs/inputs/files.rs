//! Files of text, CSV or JSON lines as the input of a job.

mod data_file;
mod records;

use std::ops::Range;
use std::path::PathBuf;

use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use serde::{Deserialize, Serialize};

use self::data_file::{DataFile, find};
use self::records::{RecordError, Records};
use super::SPLIT_BYTES_MIN;
use super::sample::places;
use crate::jobs::records::CsvFields;

/// Digits of an offset in a key, at least, so that keys are in the order of the
/// file up to a terabyte.
const OFFSET_DIGITS: usize = 12;

/// What is read of a file at a time at a place where some records are looked at.
const PLACE_BYTES: usize = 8 << 10;

/// What a record of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A line.
    Text,
    /// A CSV record.
    Csv {
        /// The first line of each file names the columns.
        header: bool,
        /// Fields in quotes may go over several lines. Whether a newline ends a
        /// record is then known only from the start of the file, so a file is one
        /// split.
        multiline: bool,
    },
    /// A line that is not empty.
    JsonLines,
}

/// The records of some files: the value is the record without its line end, the
/// key the name of the file and where the record begins in it, in bytes:
/// `logs/web.csv:000000004711`.
///
/// The files are cut into at most as many splits as asked for, of about as many
/// bytes each; a split may hold parts of several files. The borders lie between
/// records. A file that changes while the job runs is an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesInput {
    files: Vec<DataFile>,
    kind: FileKind,
    columns: Option<Vec<String>>,
    splits: usize,
}

impl FilesInput {
    /// The records of `paths`, files or directories, in at most `splits` splits.
    /// Below a directory all files count, in the order of their names, but for
    /// those whose name, or directory, begins with a dot or an underscore.
    ///
    /// # Errors
    /// When a file cannot be read, there is none, or the first lines of CSV files
    /// with a header differ.
    pub fn open(paths: &[PathBuf], kind: FileKind, splits: usize) -> Result<Self, TaskError> {
        let mut files = Vec::new();
        for path in paths {
            find(path, &mut files)?;
        }
        if files.is_empty() {
            let names: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
            return Err(TaskError::failed(format!(
                "there are no files in {}",
                names.join(", ")
            )));
        }
        let mut input = Self {
            files,
            kind,
            columns: None,
            splits: splits.max(1),
        };
        input.columns = input.header()?;
        Ok(input)
    }

    /// The names of the columns, where the files have a header.
    pub fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    fn header(&self) -> Result<Option<Vec<String>>, TaskError> {
        if !self.has_header() {
            return Ok(None);
        }
        let mut columns: Option<Vec<String>> = None;
        for file in self.files.iter().filter(|file| file.bytes > 0) {
            let mut fields = CsvFields::default();
            let mut first = Vec::new();
            let whole = 0..file.bytes;
            let mut records = Records::open(file, whole, self.kind).map_err(|e| file.failed(e))?;
            records.next(&mut first).map_err(|e| file.failed(e))?;
            fields.parse(&first).map_err(|e| file.failed(e))?;
            let names = (0..fields.len())
                .map(|at| String::from_utf8_lossy(fields.get(at).unwrap_or_default()).into_owned());
            let names: Vec<String> = names.collect();
            match &columns {
                Some(columns) if *columns != names => {
                    return Err(TaskError::failed(format!(
                        "{} has other columns than {}: {} against {}",
                        file.path.display(),
                        self.files[0].path.display(),
                        names.join(","),
                        columns.join(",")
                    )));
                }
                _ => columns = Some(names),
            }
        }
        Ok(columns)
    }

    fn is_splittable(&self) -> bool {
        !matches!(
            self.kind,
            FileKind::Csv {
                multiline: true,
                ..
            }
        )
    }

    /// Parts of files that together are about as large as each other.
    fn cut(&self) -> Result<Vec<Vec<Part>>, TaskError> {
        let total_bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        let split_bytes = total_bytes
            .div_ceil(self.splits as u64)
            .max(SPLIT_BYTES_MIN);
        let mut splits = Vec::new();
        let mut parts = Vec::new();
        let mut room_bytes = split_bytes;
        for (index, file) in (0..).zip(&self.files) {
            let mut from = 0;
            while from < file.bytes {
                let left = file.bytes - from;
                let to = match left <= room_bytes || !self.is_splittable() {
                    true => file.bytes,
                    false => file.border(from + room_bytes).map_err(|e| file.failed(e))?,
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

    /// The file that a part is of, unless it changed.
    fn file(&self, part: &Part) -> Result<&DataFile, TaskError> {
        let file = self.files.get(part.file as usize);
        let file = file.ok_or_else(|| TaskError::failed("a split of another input"))?;
        file.check().map_err(|e| file.failed(e))?;
        Ok(file)
    }

    fn has_header(&self) -> bool {
        matches!(self.kind, FileKind::Csv { header: true, .. })
    }

    fn read_part(&self, part: &Part, record: RecordSink<'_>) -> Result<(), TaskError> {
        let file = self.file(part)?;
        let opened = Records::open(file, part.bytes.clone(), self.kind);
        let mut records = opened.map_err(|e| file.failed(e))?;
        let mut key = file.name.clone();
        let mut value = Vec::new();
        if self.has_header() && part.bytes.start == 0 {
            records.next(&mut value).map_err(|e| file.failed(e))?;
        }
        // The common case, without a copy of the line.
        if matches!(self.kind, FileKind::Text | FileKind::JsonLines) {
            let skips_empty = self.kind == FileKind::JsonLines;
            while let Some(line) = records.lines.next().map_err(|e| file.failed(e))? {
                if skips_empty && line.text.trim_ascii().is_empty() {
                    continue;
                }
                set_offset(&mut key, file.name.len(), line.offset);
                record(&key, line.text)?;
            }
            return Ok(());
        }
        while let Some(offset) = records.next(&mut value).map_err(|e| file.failed(e))? {
            set_offset(&mut key, file.name.len(), offset);
            record(&key, &value)?;
        }
        Ok(())
    }
}

impl FilesInput {
    /// The first records that begin in `place` of a part.
    fn sample_place(
        &self,
        part: &Part,
        place: Range<u64>,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let file = self.file(part)?;
        let failed = |error: RecordError| file.failed(error);
        let begins = match place.start == part.bytes.start {
            true => place.start,
            false => file.border(place.start).map_err(|e| failed(e.into()))?,
        };
        if begins >= place.end {
            return Ok(());
        }
        let found = Records::open_for(file, begins..part.bytes.end, self.kind, PLACE_BYTES);
        let mut found = found.map_err(|e| failed(e.into()))?;
        let mut key = file.name.clone();
        let mut value = Vec::new();
        if self.has_header() && begins == 0 {
            found.next(&mut value).map_err(failed)?;
        }
        for _ in 0..records {
            match found.next_of(self.kind, &mut value).map_err(failed)? {
                Some(offset) if offset < place.end => {
                    set_offset(&mut key, file.name.len(), offset);
                    record(&key, &value)?;
                }
                _ => break,
            }
        }
        Ok(())
    }
}

impl Input for FilesInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let numbered = (0..).zip(self.cut()?);
        let split = |(index, parts): (u32, Vec<Part>)| Split {
            index,
            bytes: parts.iter().map(Part::length).sum(),
            payload: parts.iter().flat_map(Part::encode).collect(),
            ..Split::default()
        };
        Ok(numbered.map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        for part in Part::all(split) {
            self.read_part(&part, record)?;
        }
        Ok(())
    }

    /// Some records at each of several places, which lie at even distances. Of files
    /// with records over several lines, whose borders are known only from the start,
    /// the first ones.
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let parts: Vec<Part> = Part::all(split).collect();
        let places = places(records);
        if !self.is_splittable() {
            let files = parts.len().min(places);
            for nth in 0..files {
                let part = &parts[nth * parts.len() / files];
                let records = records.div_ceil(files);
                self.sample_place(part, part.bytes.clone(), records, record)?;
            }
            return Ok(());
        }
        let all_bytes: u64 = parts.iter().map(Part::length).sum();
        let border = |place: usize| all_bytes * place as u64 / places as u64;
        let (mut place, mut before) = (0, 0);
        for part in &parts {
            while place < places && border(place) < before + part.length() {
                let at = |border: u64| part.bytes.start + (border - before);
                let to = at(border(place + 1)).min(part.bytes.end);
                let records = records.div_ceil(places);
                self.sample_place(part, at(border(place))..to, records, record)?;
                place += 1;
            }
            before += part.length();
        }
        Ok(())
    }
}

/// Writes an offset, of at least so many digits, behind the name of the file.
/// A record is as cheap to read as this: `format!` takes several times as long.
fn set_offset(key: &mut Vec<u8>, name_bytes: usize, mut offset: u64) {
    let mut digits = [b'0'; 20];
    let mut from = digits.len();
    while offset > 0 || from > digits.len() - OFFSET_DIGITS {
        from -= 1;
        digits[from] = b'0' + (offset % 10) as u8;
        offset /= 10;
    }
    key.truncate(name_bytes);
    key.extend_from_slice(&digits[from..]);
}

/// A part of a file, as it stands in a split's payload: three numbers, LE.
///
/// ```text
///   number of the file, u32 | first byte, u64 | byte behind the last, u64
/// ```
#[derive(Debug, PartialEq, Eq)]
struct Part {
    file: u32,
    bytes: Range<u64>,
}

impl Part {
    const ENCODED_BYTES: usize = 20;

    /// Those of a split.
    fn all(split: &Split) -> impl Iterator<Item = Self> {
        let encoded = split.payload.chunks_exact(Self::ENCODED_BYTES);
        encoded.map(Self::decode)
    }

    fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    fn encode(&self) -> Vec<u8> {
        let mut payload = self.file.to_le_bytes().to_vec();
        payload.extend_from_slice(&self.bytes.start.to_le_bytes());
        payload.extend_from_slice(&self.bytes.end.to_le_bytes());
        payload
    }

    /// # Panics
    /// For bytes that [`Part::encode`] did not give.
    fn decode(payload: &[u8]) -> Self {
        let number =
            |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        Self {
            file: u32::from_le_bytes(payload[..4].try_into().expect("four bytes")),
            bytes: number(4)..number(12),
        }
    }
}

#[cfg(test)]
mod tests;
