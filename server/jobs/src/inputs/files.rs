//! Files of text, CSV or JSON lines as the input of a job.

mod content;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod data_file;
mod record_error;
mod records;

use std::ops::Range;
use std::path::{Path, PathBuf};

use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use serde::{Deserialize, Serialize};

use self::content::Content;
use self::data_file::{DataFile, find};
use self::record_error::RecordError;
use self::records::Records;
use super::SPLIT_BYTES_MIN;
use super::sample::places;
use crate::records::{CsvFields, InvalidInput, RecordFormat, ValueFormat, double_name};

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
/// records. A file that is compressed by gzip, by its first bytes, is read as its text, in
/// one part. A file that changes while the job runs is an error.
///
/// Where a row cannot be read as what it is said to be, the error names the file and the
/// line.
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
    /// When a file cannot be read or is of a format that is not read, there is none, or
    /// the first lines of CSV files with a header differ or name a column twice.
    pub fn open(paths: &[PathBuf], kind: FileKind, splits: usize) -> Result<Self, TaskError> {
        let paths = paths.iter().map(|path| (path.clone(), path.as_path()));
        Self::open_as(&paths.collect::<Vec<_>>(), kind, splits)
    }

    /// The same of paths that keys call by other names: a path and its name each.
    ///
    /// # Errors
    /// As [`FilesInput::open`].
    pub fn open_as(
        paths: &[(PathBuf, &Path)],
        kind: FileKind,
        splits: usize,
    ) -> Result<Self, TaskError> {
        let mut files = Vec::new();
        for (path, name) in paths {
            find(path, name, &mut files)?;
        }
        if files.is_empty() {
            let names: Vec<_> = paths.iter().map(|(_, p)| p.display().to_string()).collect();
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

    /// What its rows are. Columns of CSV files without a header are called `names`, or by
    /// their numbers without any.
    ///
    /// # Errors
    /// When there are more or fewer names than columns, or two are the same.
    pub fn format(&self, names: &[String]) -> Result<RecordFormat, InvalidInput> {
        let columns = match (self.kind, &self.columns) {
            (FileKind::Text, _) => return Ok(RecordFormat::text()),
            (FileKind::JsonLines, _) => return Ok(RecordFormat::file(ValueFormat::Json)),
            (FileKind::Csv { header: true, .. }, columns) => columns.as_deref(),
            (FileKind::Csv { header: false, .. }, columns) => match (names, columns) {
                ([], columns) => columns.as_deref(),
                (names, Some(columns)) if columns.len() != names.len() => {
                    return Err(InvalidInput(format!(
                        "{} names for the {} columns of {}",
                        names.len(),
                        columns.len(),
                        self.files[0].path.display()
                    )));
                }
                (names, _) => Some(names),
            },
        };
        Ok(RecordFormat::file(ValueFormat::csv(columns)?))
    }

    /// The names of the columns of CSV files, by their first lines; numbers, from 1, where
    /// those are not a header.
    fn header(&self) -> Result<Option<Vec<String>>, TaskError> {
        let FileKind::Csv { header, .. } = self.kind else {
            return Ok(None);
        };
        let mut first: Option<(&DataFile, Vec<String>)> = None;
        for file in self.files.iter().filter(|file| file.bytes > 0) {
            let Some(names) = self.first_record(file)? else {
                continue;
            };
            if !header {
                let numbers = (1..=names.len()).map(|number| number.to_string());
                return Ok(Some(numbers.collect()));
            }
            if let Some(name) = double_name(&names) {
                let problem = format!("two columns are called {name:?}");
                return Err(file.invalid(0, &problem));
            }
            match &first {
                Some((other, columns)) if *columns != names => {
                    return Err(TaskError::invalid(InvalidInput(format!(
                        "{} has other columns than {}: {} against {}",
                        file.path.display(),
                        other.path.display(),
                        names.join(","),
                        columns.join(",")
                    ))));
                }
                Some(_) => {}
                None => first = Some((file, names)),
            }
        }
        Ok(first.map(|(_, columns)| columns))
    }

    /// The fields of the first record of a file; `None` without records.
    fn first_record(&self, file: &DataFile) -> Result<Option<Vec<String>>, TaskError> {
        let mut record = Vec::new();
        let mut records =
            Records::open(file, 0..file.bytes, self.kind).map_err(|e| file.failed(e))?;
        let found = records.next(&mut record).map_err(|e| file.failed(e))?;
        let Some(offset) = found else {
            return Ok(None);
        };
        let mut fields = CsvFields::default();
        let parsed = fields.parse(&record);
        parsed.map_err(|problem| file.invalid(offset, &problem.to_string()))?;
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        Ok(Some(fields.iter().map(text).collect()))
    }

    /// Whether parts of a file can be read by themselves.
    fn is_splittable(&self, file: &DataFile) -> bool {
        let is_multiline = matches!(
            self.kind,
            FileKind::Csv {
                multiline: true,
                ..
            }
        );
        !is_multiline && file.content == Content::Plain
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
                let to = match left <= room_bytes || !self.is_splittable(file) {
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
                record(&key, line.text).map_err(|e| file.placed(line.offset, e))?;
            }
            return Ok(());
        }
        while let Some(offset) = records.next(&mut value).map_err(|e| file.failed(e))? {
            set_offset(&mut key, file.name.len(), offset);
            record(&key, &value).map_err(|e| file.placed(offset, e))?;
        }
        Ok(())
    }
}

impl FilesInput {
    /// The first records that begin in `place` of a part; of a file that is compressed
    /// the first ones of all.
    fn sample_place(
        &self,
        part: &Part,
        place: Range<u64>,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let file = self.file(part)?;
        let failed = |error: RecordError| file.failed(error);
        let is_compressed = file.content == Content::Gzip;
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
                Some(offset) if offset < place.end || is_compressed => {
                    set_offset(&mut key, file.name.len(), offset);
                    record(&key, &value).map_err(|e| file.placed(offset, e))?;
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
    /// that can be read only from the start the first ones.
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let parts: Vec<Part> = Part::all(split).collect();
        let places = places(records);
        let file_of = |part: &Part| self.files.get(part.file as usize);
        let is_splittable = |part| file_of(part).is_some_and(|file| self.is_splittable(file));
        if !parts.iter().all(is_splittable) {
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
