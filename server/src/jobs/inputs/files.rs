//! Files of text, CSV or JSON lines as the input of a job.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use memchr::memchr;
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::SPLIT_BYTES_MIN;
use super::lines::{LINE_BYTES_MAX, Lines, READ_BYTES};
use super::sample::places;
use crate::jobs::records::{CsvFields, CsvProblem};

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

#[derive(Debug, Clone, Serialize, Deserialize)]
struct DataFile {
    path: PathBuf,
    /// What its keys begin with, the colon included.
    name: Vec<u8>,
    bytes: u64,
    modified: SystemTime,
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

impl DataFile {
    fn new(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::metadata(&path)?;
        // A pipe or a device: it has no length, and no part of it can be read again.
        if !metadata.is_file() {
            return Err(io::Error::other(
                "it is neither a file nor a directory; write what it gives into a file first",
            ));
        }
        // One that must not be read is told now, and not by a task.
        File::open(&path)?;
        let name = path.strip_prefix(".").unwrap_or(&path);
        let mut name = name.as_os_str().as_bytes().to_vec();
        name.push(b':');
        Ok(Self {
            bytes: metadata.len(),
            modified: metadata.modified()?,
            path,
            name,
        })
    }

    /// That it is as it was when it was cut into parts.
    fn check(&self) -> io::Result<()> {
        let now = fs::metadata(&self.path)?;
        if now.len() == self.bytes && now.modified()? == self.modified {
            return Ok(());
        }
        Err(io::Error::other(
            "it has changed since the job was submitted",
        ))
    }

    /// Where the first line begins at or behind `at`; the end of the file when
    /// there is none.
    fn border(&self, at: u64) -> io::Result<u64> {
        let file = File::open(&self.path)?;
        let mut block = vec![0; 16 << 10];
        // With the byte before: a line may begin right there.
        let mut from = at.saturating_sub(1);
        while from < self.bytes {
            let read = file.read_at(&mut block, from)?;
            if let Some(newline) = memchr(b'\n', &block[..read]) {
                return Ok(from + newline as u64 + 1);
            }
            if read == 0 {
                break;
            }
            from += read as u64;
        }
        Ok(self.bytes)
    }

    fn failed(&self, error: impl Into<RecordError>) -> TaskError {
        let path = self.path.display();
        match error.into() {
            RecordError::Io(source) => TaskError::io(format!("reading {path}"))(source),
            RecordError::Csv(problem) => TaskError::failed(format!("{path}: {problem}")),
            RecordError::OpenQuote { offset } => TaskError::failed(format!(
                "{path}: the record at byte {offset} has a quote that is still open at the end \
                 of its line; if fields go over several lines, say --multiline"
            )),
        }
    }
}

fn find(path: &Path, files: &mut Vec<DataFile>) -> Result<(), TaskError> {
    let is_data = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().as_bytes();
        entry.depth() == 0 || !(name.starts_with(b".") || name.starts_with(b"_"))
    };
    let entries = WalkDir::new(path).sort_by_file_name();
    for entry in entries.into_iter().filter_entry(is_data) {
        let entry = entry.map_err(|e| {
            let at = e.path().unwrap_or(path).display().to_string();
            let cause = e.into_io_error();
            let cause = cause.unwrap_or_else(|| io::Error::other("links lead in a circle"));
            TaskError::io(format!("looking for files in {at}"))(cause)
        })?;
        if entry.path().is_dir() {
            continue;
        }
        let path = entry.into_path();
        let file = DataFile::new(path.clone());
        files.push(file.map_err(TaskError::io(format!("reading {}", path.display())))?);
    }
    Ok(())
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

enum RecordError {
    Io(io::Error),
    Csv(CsvProblem),
    OpenQuote { offset: u64 },
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CsvProblem> for RecordError {
    fn from(problem: CsvProblem) -> Self {
        Self::Csv(problem)
    }
}

/// The records of a part of a file.
struct Records {
    lines: Lines,
    multiline: bool,
    fields: CsvFields,
}

impl Records {
    fn open(file: &DataFile, part: Range<u64>, kind: FileKind) -> io::Result<Self> {
        Self::open_for(file, part, kind, READ_BYTES)
    }

    fn open_for(
        file: &DataFile,
        part: Range<u64>,
        kind: FileKind,
        read_bytes: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            lines: Lines::open(&file.path, part, read_bytes)?,
            multiline: matches!(
                kind,
                FileKind::Csv {
                    multiline: true,
                    ..
                }
            ),
            fields: CsvFields::default(),
        })
    }

    /// Puts the next record of any kind into `record` and tells where it begins;
    /// `None` after the last.
    fn next_of(
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
    fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>, RecordError> {
        record.clear();
        let mut begins = None;
        while let Some(line) = self.lines.next()? {
            if begins.is_some() {
                record.push(b'\n');
            } else if line.text.is_empty() {
                continue;
            }
            let offset = *begins.get_or_insert(line.offset);
            record.extend_from_slice(line.text);
            // Without a quote in it the line ends what it goes on with or not.
            let has_quote = memchr(b'"', line.text).is_some();
            let is_whole = if record.len() == line.text.len() {
                !has_quote || self.fields.parse(record) != Err(CsvProblem::OpenQuote)
            } else {
                has_quote && self.fields.parse(record) != Err(CsvProblem::OpenQuote)
            };
            if is_whole {
                return Ok(Some(offset));
            }
            if !self.multiline {
                return Err(RecordError::OpenQuote { offset });
            }
            if record.len() > LINE_BYTES_MAX {
                let text = format!(
                    "the record at byte {offset} is longer than {LINE_BYTES_MAX} bytes: \
                     a quote may be missing"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
            }
        }
        match begins {
            Some(offset) => Err(RecordError::OpenQuote { offset }),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
