//! Files of text, CSV or JSON lines as the input of a job.

#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod data_file;
mod records;

use std::ops::Range;
use std::path::{Path, PathBuf};

use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};
use ebb_text::TextFormat;
use ebb_text::counts::counted;
use ebb_text::csv::{CsvDialect, CsvFields, problem_of_names};
use ebb_text::reader::{Content, RecordError, RecordKind};
use serde::{Deserialize, Serialize};

use self::data_file::{BadFile, DataFile, find};
use self::records::FileRecords;
use super::SPLIT_BYTES_MIN;
use super::sample::places;
use crate::records::{InvalidInput, InvalidRow, RecordFormat, ValueFormat};

/// The least number of digits of a byte offset in a key. With it, keys are in the order of the file
/// up to a terabyte.
const OFFSET_DIGITS: usize = 12;

/// The read size in bytes for a sample, which reads only a few records at each place of a file.
const PLACE_BYTES: usize = 8 << 10;

/// The read size in bytes for reading all records of a part of a file.
const READ_BYTES: usize = 256 << 10;

/// The kind of a file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// Each record is a line.
    Text,
    /// Each record is a CSV record, which may span several lines.
    Csv {
        /// True if the first line of each file contains the names of the columns.
        header: bool,
        /// The byte between two fields; `None`: a tab in files with the extension `.tsv`,
        /// else a comma.
        delimiter: Option<u8>,
        /// True if malformed quotes are read as text. Then each file is one split, because only a
        /// reader from its start can find where a record begins.
        lenient_quotes: bool,
    },
    /// A JSON object per line. Blank lines are skipped.
    JsonLines,
}

impl FileKind {
    /// Returns the kind of CSV files with well-formed quotes. The delimiter is a tab in files with
    /// the extension `.tsv`, else a comma.
    pub const fn csv(header: bool) -> Self {
        Self::Csv {
            header,
            delimiter: None,
            lenient_quotes: false,
        }
    }

    /// Returns the kind of records in the file at this path.
    fn of_file(self, path: &Path) -> RecordKind {
        match self {
            Self::Text => RecordKind::Text,
            Self::JsonLines => RecordKind::JsonLines,
            Self::Csv {
                delimiter,
                lenient_quotes,
                ..
            } => RecordKind::Csv(CsvDialect {
                delimiter: delimiter.unwrap_or_else(|| TextFormat::delimiter_of_name(path)),
                lenient_quotes,
            }),
        }
    }

    fn has_header(self) -> bool {
        matches!(self, Self::Csv { header: true, .. })
    }
}

/// The records of some files. The key of a record is the name of the file and the byte offset of
/// the record: `logs/web.csv:000000004711`. The value is the text of the record without the line
/// end. A CSV record is rewritten with commas and well-formed quotes, whatever delimiter and quotes
/// the file has.
///
/// The files are cut into at most the given number of splits of about equal size; a split may hold
/// parts of several files. The borders lie between records. A file that is compressed by gzip
/// (detected by its first bytes) is read as its text, in one part. A file that changes while the
/// job runs is an error.
///
/// The reader is that of `ebb_text`, which loads use, too. The error of a malformed record names
/// the file and the line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesInput {
    files: Vec<DataFile>,
    kind: FileKind,
    columns: Option<Vec<String>>,
    splits: usize,
}

impl FilesInput {
    /// Opens `paths`, files or directories, in at most `splits` splits. Of a directory, all files
    /// at any depth are read, in the order of their names, except those whose name, or whose
    /// directory's name, begins with a dot or an underscore.
    ///
    /// # Errors
    /// When a file cannot be read or has an unsupported format, when there is no file, or
    /// when the first lines of CSV files with a header differ or name a column twice.
    pub fn open(paths: &[PathBuf], kind: FileKind, splits: usize) -> Result<Self, TaskError> {
        let paths = paths.iter().map(|path| (path.clone(), path.as_path()));
        Self::open_as(&paths.collect::<Vec<_>>(), kind, splits)
    }

    /// Opens files or directories as [`FilesInput::open`] does, but with other names in keys: each
    /// pair of `paths` has a path and the name that keys show for it.
    ///
    /// # Errors
    /// As [`FilesInput::open`].
    pub fn open_as(
        paths: &[(PathBuf, &Path)],
        kind: FileKind,
        splits: usize,
    ) -> Result<Self, TaskError> {
        let files = find_all(paths)?.into_iter();
        let files = files.collect::<Result<_, _>>().map_err(BadFile::refused)?;
        let mut input = Self::of(files, kind, splits);
        input.columns = input.header()?;
        Ok(input)
    }

    /// Opens those files that can be read to their end, as [`FilesInput::open_as`] does; each file
    /// is read once to find out. The first readable file decides the columns. Also returns an error
    /// for each of the other files, which names the file.
    ///
    /// # Errors
    /// When a path is not there, a directory cannot be read, or no file is left.
    pub fn open_good(
        paths: &[(PathBuf, &Path)],
        kind: FileKind,
        splits: usize,
    ) -> Result<(Self, Vec<TaskError>), TaskError> {
        let (mut input, mut bad) = (Self::of(Vec::new(), kind, splits), Vec::new());
        for found in find_all(paths)? {
            let checked = found.map_err(BadFile::into_error);
            match checked.and_then(|file| Ok((input.check_whole(&file)?, file))) {
                Ok((columns, file)) => {
                    input.columns = input.columns.take().or(columns);
                    input.files.push(file);
                }
                Err(error) => bad.push(error),
            }
        }
        match (input.files.is_empty(), bad.len()) {
            (true, 1) => Err(bad.remove(0)),
            (true, all) => Err(TaskError::invalid(InvalidInput(format!(
                "none of the {all} files can be read; the first problem: {}",
                bad[0]
            )))),
            (false, _) => Ok((input, bad)),
        }
    }

    fn of(files: Vec<DataFile>, kind: FileKind, splits: usize) -> Self {
        Self {
            files,
            kind,
            columns: None,
            splits: splits.max(1),
        }
    }

    /// Returns the format of the rows. `names` are the names of the columns of CSV files without a
    /// header; if it is empty, the columns have numbers. Files of other kinds ignore `names`.
    ///
    /// # Errors
    /// When there are more or fewer names than columns, or two names are the same.
    pub fn format(&self, names: &[String]) -> Result<RecordFormat, InvalidInput> {
        let columns = match (self.kind, &self.columns) {
            (FileKind::Text, _) => return Ok(RecordFormat::text()),
            (FileKind::JsonLines, _) => return Ok(RecordFormat::file(ValueFormat::Json)),
            (FileKind::Csv { header: true, .. }, columns) => columns.as_deref(),
            (FileKind::Csv { header: false, .. }, columns) => match (names, columns) {
                ([], columns) => columns.as_deref(),
                (names, Some(columns)) if columns.len() != names.len() => {
                    return Err(InvalidInput(format!(
                        "{} for the {} of {}",
                        counted(names.len(), "name"),
                        counted(columns.len(), "column"),
                        self.files[0].path.display()
                    )));
                }
                (names, _) => Some(names),
            },
        };
        Ok(RecordFormat::file(ValueFormat::csv(columns)?))
    }

    /// Returns the names of the columns of CSV files, by the first line of each file; numbers, from
    /// 1, if the files have no header. `None` if no file has columns.
    fn header(&self) -> Result<Option<Vec<String>>, TaskError> {
        let mut first: Option<(&DataFile, Vec<String>)> = None;
        for file in &self.files {
            let Some(names) = self.columns_of(file)? else {
                continue;
            };
            match &first {
                Some((other, columns)) if *columns != names => {
                    let other = other.path.display().to_string();
                    return Err(other_columns(file, &names, &other, columns));
                }
                Some(_) => {}
                None if !self.kind.has_header() => return Ok(Some(names)),
                None => first = Some((file, names)),
            }
        }
        Ok(first.map(|(_, columns)| columns))
    }

    /// Returns the names of the columns of a file, or their numbers; `None` if it is no CSV
    /// file, or has no records.
    fn columns_of(&self, file: &DataFile) -> Result<Option<Vec<String>>, TaskError> {
        let FileKind::Csv { header, .. } = self.kind else {
            return Ok(None);
        };
        if file.bytes == 0 {
            return Ok(None);
        }
        let Some((line, names)) = self.first_record(file)? else {
            return Ok(None);
        };
        if !header {
            let numbers = (1..=names.len()).map(|number| number.to_string());
            return Ok(Some(numbers.collect()));
        }
        match problem_of_names(&names) {
            Some(problem) => Err(file.invalid(line, &problem)),
            None => Ok(Some(names)),
        }
    }

    /// Reads a file to its end and returns its columns (see `columns_of`), after a check that they
    /// match those of the files before it.
    fn check_whole(&self, file: &DataFile) -> Result<Option<Vec<String>>, TaskError> {
        let columns = self.columns_of(file)?;
        if let (Some(own), Some(others)) = (&columns, &self.columns)
            && own != others
        {
            return Err(other_columns(file, own, "the files before it", others));
        }
        let whole = 0..file.bytes;
        let mut records = self.records(file, whole.clone(), READ_BYTES)?;
        let failed = |error| self.failed(file, &whole, error);
        while records.read().map_err(failed)?.is_some() {}
        Ok(columns)
    }

    /// Returns the first record of a file: the number of its line, and its fields; `None` if the
    /// file has no records.
    fn first_record(&self, file: &DataFile) -> Result<Option<(u64, Vec<String>)>, TaskError> {
        let whole = 0..file.bytes;
        let mut records = self.records(file, whole.clone(), PLACE_BYTES)?;
        let found = records.read();
        let found = found.map_err(|e| self.failed(file, &whole, e))?;
        let Some(found) = found else {
            return Ok(None);
        };
        let mut fields = CsvFields::default();
        let parsed = fields.parse(found.text);
        parsed.map_err(|problem| file.invalid(found.line, &problem.to_string()))?;
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        Ok(Some((found.line, fields.iter().map(text).collect())))
    }

    /// Returns the offset of the first record of a file, which is its header; 0 without records.
    fn header_at(&self, file: &DataFile) -> Result<u64, TaskError> {
        let whole = 0..file.bytes;
        let mut records = self.records(file, whole.clone(), PLACE_BYTES)?;
        let found = records.read();
        let found = found.map_err(|e| self.failed(file, &whole, e))?;
        Ok(found.map_or(0, |header| header.offset))
    }

    fn records(
        &self,
        file: &DataFile,
        part: Range<u64>,
        read_bytes: usize,
    ) -> Result<FileRecords, TaskError> {
        let kind = self.kind.of_file(&file.path);
        let records = file.records(part, kind).map_err(|e| file.failed(e))?;
        let fields = self.columns.as_ref().map(Vec::len);
        let records = records.reading(read_bytes).with_fields(fields);
        Ok(FileRecords::new(records, kind))
    }

    /// Returns the error of reading a part of a file. If the file has changed since it was cut into
    /// parts, the error names this cause. If the file is malformed, it is the error of the first
    /// problem in the whole file, which is read again from its start. Reading the part alone does
    /// not show this problem: its line numbers count from its own start, and a quote that is open at
    /// its end may have been opened, or be closed, anywhere in the file.
    fn failed(&self, file: &DataFile, part: &Range<u64>, error: RecordError) -> TaskError {
        // If the file was changed meanwhile, its new content may look malformed.
        if let Err(changed) = file.check() {
            return file.failed(changed);
        }
        match error {
            RecordError::Io { source, .. } => file.failed(source),
            RecordError::Malformed { line, problem } if *part == (0..file.bytes) => {
                file.invalid(line, &problem)
            }
            RecordError::Malformed { .. } => self.first_problem(file),
        }
    }

    fn first_problem(&self, file: &DataFile) -> TaskError {
        let whole = 0..file.bytes;
        let mut records = match self.records(file, whole.clone(), READ_BYTES) {
            Ok(records) => records,
            Err(error) => return error,
        };
        loop {
            match records.read() {
                Ok(Some(_)) => {}
                Ok(None) => return file.changed(),
                Err(error) => return self.failed(file, &whole, error),
            }
        }
    }

    /// Returns whether parts of a file can be read independently of each other.
    fn is_splittable(&self, file: &DataFile) -> bool {
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
    fn cut(&self) -> Result<Vec<Vec<Part>>, TaskError> {
        let total_bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        let split_bytes = total_bytes.div_ceil(self.splits as u64);
        self.cut_by(split_bytes.max(SPLIT_BYTES_MIN))
    }

    /// Cuts the files into parts, and groups the parts into splits of about `split_bytes` each.
    fn cut_by(&self, split_bytes: u64) -> Result<Vec<Vec<Part>>, TaskError> {
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

    /// Returns the file of a part, or an error if the file has changed since it was cut into parts.
    fn file(&self, part: &Part) -> Result<&DataFile, TaskError> {
        let file = self.files.get(part.file as usize);
        let file = file.ok_or_else(|| TaskError::failed("a split of another input"))?;
        file.check().map_err(|e| file.failed(e))?;
        Ok(file)
    }

    fn read_part(&self, part: &Part, record: RecordSink<'_>) -> Result<(), TaskError> {
        let file = self.file(part)?;
        let failed = |error| self.failed(file, &part.bytes, error);
        let mut records = self.records(file, part.bytes.clone(), READ_BYTES)?;
        let mut key = file.name.clone();
        if self.kind.has_header() && part.bytes.start == 0 {
            records.read().map_err(failed)?;
        }
        while let Some(found) = records.read().map_err(failed)? {
            set_offset(&mut key, file.name.len(), found.offset);
            record(&key, found.text).map_err(|e| file.placed(found.offset, e))?;
        }
        // If the file was changed meanwhile, the records are from its old and its new content.
        self.file(part)?;
        Ok(())
    }

    /// Passes the first `records` records that begin in the range `place` of a part to `record`. If
    /// the file can be read only from its start, these are the first records of the file.
    ///
    /// In the middle of a CSV file the start of a record is only likely. So if records there are
    /// malformed, or `record` rejects them, the place is skipped: either the start was wrong, or
    /// the task that reads the part reports the problem.
    fn sample_place(
        &self,
        part: &Part,
        place: Range<u64>,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let file = self.file(part)?;
        let kind = self.kind.of_file(&file.path);
        let is_certain = place.start == part.bytes.start || !matches!(kind, RecordKind::Csv(_));
        let begins = if place.start == part.bytes.start {
            place.start
        } else {
            let border = file.likely_border(place.start, kind);
            border.map_err(|e| file.failed(e))?
        };
        if begins >= place.end {
            return Ok(());
        }
        let rest = begins..part.bytes.end;
        let mut reader = self.records(file, rest.clone(), PLACE_BYTES)?;
        let mut key = file.name.clone();
        if self.kind.has_header() && begins == 0 {
            let header = reader.read();
            header.map_err(|error| self.failed(file, &rest, error))?;
        }
        for _ in 0..records {
            let found = match reader.read() {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(RecordError::Malformed { .. }) if !is_certain => break,
                Err(error) => return Err(self.failed(file, &rest, error)),
            };
            // A place in a compressed file is an offset in its text, which is longer than
            // the file.
            if found.offset >= place.end && file.content != Content::Gzip {
                break;
            }
            set_offset(&mut key, file.name.len(), found.offset);
            match record(&key, found.text) {
                Ok(()) => {}
                Err(error) if !is_certain && InvalidRow::of(&error).is_some() => break,
                Err(error) => return Err(file.placed(found.offset, error)),
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

    /// Reads some records at each of several places of the split, at even distances. If a file of
    /// the split can be read only from its start, reads the first records of several of the split's
    /// parts of files instead.
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
        _checkpoint: Checkpoint<'_>,
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

/// Finds the files in `paths`, each a path and its name in keys. A file that is not text or cannot
/// be read is a [`BadFile`] in the list.
///
/// # Errors
/// When a path does not exist, a directory cannot be read, or there are no files.
fn find_all(paths: &[(PathBuf, &Path)]) -> Result<Vec<Result<DataFile, BadFile>>, TaskError> {
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
    Ok(files)
}

fn other_columns(file: &DataFile, own: &[String], other: &str, columns: &[String]) -> TaskError {
    TaskError::invalid(InvalidInput(format!(
        "{} has other columns than {other}: {} against {}",
        file.path.display(),
        own.join(","),
        columns.join(",")
    )))
}

/// Writes the byte offset of a record, with at least [`OFFSET_DIGITS`] digits, after the name of
/// the file in `key`, whose first `name_bytes` bytes are that name. `format!` takes several times
/// as long, which would double the cost of a record.
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

/// A part of a file, which the payload of a split has as three numbers, LE:
///
/// ```text
///   number of the file, u32 | first byte, u64 | byte after the last, u64
/// ```
#[derive(Debug, PartialEq, Eq)]
struct Part {
    file: u32,
    bytes: Range<u64>,
}

impl Part {
    const ENCODED_BYTES: usize = 20;

    /// Decodes the list of parts of files that a split consists of.
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

#[cfg(test)]
mod tests;
