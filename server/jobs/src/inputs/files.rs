//! Files of text, CSV or JSON lines as the input of a job.
//!
//! | file | content |
//! | --- | --- |
//! | `kind` | the kind of a file's records |
//! | `data_file` | a file as it was when the job was submitted |
//! | `columns` | the columns of CSV files, by their first records |
//! | `parts` | the parts into which files are cut |
//! | `records` | the records of a part, as applications get them |

mod columns;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod data_file;
mod kind;
mod parts;
mod records;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::{Path, PathBuf};

use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};
use ebb_text::counts::counted;
use ebb_text::reader::{Content, RecordError, RecordKind};
use serde::{Deserialize, Serialize};

use self::data_file::{BadFile, DataFile, find};
pub use self::kind::FileKind;
use self::parts::Part;
use self::records::FileRecords;
use super::sample::places;
use crate::records::{InvalidInput, InvalidRow, RecordFormat, ValueFormat};

/// The least number of digits of a byte offset in a key. With it, keys are in the order of the file
/// up to a terabyte.
const OFFSET_DIGITS: usize = 12;

/// The read size in bytes for a sample, which reads only a few records at each place of a file.
const PLACE_BYTES: usize = 8 << 10;

/// The read size in bytes for reading all records of a part of a file.
const READ_BYTES: usize = 256 << 10;

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
        let columns = match (self.kind, self.columns.as_deref()) {
            (FileKind::Text, _) => return Ok(RecordFormat::text()),
            (FileKind::JsonLines, _) => return Ok(RecordFormat::file(ValueFormat::Json)),
            (FileKind::Csv { header, .. }, columns) if header || names.is_empty() => columns,
            (FileKind::Csv { .. }, Some(columns)) if columns.len() != names.len() => {
                return Err(InvalidInput(format!(
                    "{} for the {} of {}",
                    counted(names.len(), "name"),
                    counted(columns.len(), "column"),
                    self.files[0].path.display()
                )));
            }
            (FileKind::Csv { .. }, _) => Some(names),
        };
        Ok(RecordFormat::file(ValueFormat::csv(columns)?))
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
            RecordError::Malformed { .. } => match self.read_whole(file) {
                Ok(()) => file.changed(),
                Err(first) => first,
            },
        }
    }

    /// Reads a file to its end.
    ///
    /// # Errors
    /// If the file has changed, cannot be read, or is malformed.
    fn read_whole(&self, file: &DataFile) -> Result<(), TaskError> {
        let whole = 0..file.bytes;
        let mut records = self.records(file, whole.clone(), READ_BYTES)?;
        let failed = |error| self.failed(file, &whole, error);
        while records.read().map_err(failed)?.is_some() {}
        Ok(())
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
