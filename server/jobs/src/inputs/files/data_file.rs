//! Files as they were when the job was submitted.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ebb_scheduler::runtime::TaskError;
use ebb_text::check_exists;
use ebb_text::reader::{
    Content, NotText, RecordKind, Records, count_line_ends, gunzip, likely_border, record_border,
    sniff,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use walkdir::WalkDir;

use crate::records::{InvalidInput, InvalidRow};

const CHANGED: &str = "it has changed since the job was submitted";

/// A file, with the size, content type and modification time that it had when it was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DataFile {
    #[serde(serialize_with = "write_bytes", deserialize_with = "read_bytes")]
    pub(super) path: PathBuf,
    /// The start of the keys of the file's records: the name of the file and a colon.
    pub(super) name: Vec<u8>,
    /// The size on the disk in bytes, before decompression.
    pub(super) bytes: u64,
    pub(super) content: Content,
    modified: SystemTime,
}

/// Writes a path as bytes. Serde's own form of a path is text, so the description of a job for other
/// processes could not contain a file of a directory whose name is not UTF-8.
fn write_bytes<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(serializer)
}

/// Reads a path that [`write_bytes`] has written.
fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(deserializer).map(PathBuf::from)
}

impl DataFile {
    fn new(path: PathBuf, name: &Path) -> io::Result<Result<Self, NotText>> {
        let metadata = fs::metadata(&path)?;
        // A pipe or a device: it has no length, and no part of it can be read again.
        if !metadata.is_file() {
            return Err(io::Error::other(
                "it is neither a file nor a directory; write what it gives into a file first",
            ));
        }
        let file = File::open(&path)?;
        // Maps read parts of a file by its size, and so would read nothing of this one.
        if metadata.len() == 0 && (&file).read(&mut [0])? > 0 {
            return Err(io::Error::other(
                "it has content although its size is 0, as files in /proc do; copy it, and read \
                 the copy",
            ));
        }
        // Missing permission is an error now, and so is what is no text, as far as its start
        // shows that: not in a task, after hours of work on the other files.
        let content = match sniff(&file)? {
            Ok(content) => content,
            Err(not_text) => return Ok(Err(not_text)),
        };
        let name = name.strip_prefix(".").unwrap_or(name);
        let mut name = name.as_os_str().as_bytes().to_vec();
        name.push(b':');
        Ok(Ok(Self {
            bytes: metadata.len(),
            modified: metadata.modified()?,
            content,
            path,
            name,
        }))
    }

    /// Checks that the file has not changed since it was cut into parts.
    pub(super) fn check(&self) -> io::Result<()> {
        let now = fs::metadata(&self.path)?;
        if now.len() == self.bytes && now.modified()? == self.modified {
            return Ok(());
        }
        Err(io::Error::other(CHANGED))
    }

    /// Opens the records of the part of the file with the byte range `part`, which must begin and
    /// end at borders of records. For a compressed file, opens all records, whatever `part` is.
    pub(super) fn records(
        &self,
        part: Range<u64>,
        kind: RecordKind,
    ) -> io::Result<Records<'static>> {
        let mut file = File::open(&self.path)?;
        Ok(match self.content {
            Content::Plain => {
                file.seek(SeekFrom::Start(part.start))?;
                Records::of_part(file, part, kind)
            }
            Content::Gzip => Records::new(gunzip(file), kind),
        })
    }

    /// Returns the offset of the first record that begins at or after the offset `at`; the end of
    /// the file if there is none. `known` is the offset of an earlier record.
    pub(super) fn border(&self, known: u64, at: u64, kind: RecordKind) -> io::Result<u64> {
        record_border(&File::open(&self.path)?, self.bytes, known, at, kind)
    }

    /// Returns the offset at or after `at` where a record probably begins; see [`likely_border`].
    pub(super) fn likely_border(&self, at: u64, kind: RecordKind) -> io::Result<u64> {
        likely_border(&File::open(&self.path)?, self.bytes, at, kind)
    }

    pub(super) fn failed(&self, source: io::Error) -> TaskError {
        TaskError::io(format!("reading {}", self.path.display()))(source)
    }

    pub(super) fn changed(&self) -> TaskError {
        self.failed(io::Error::other(CHANGED))
    }

    pub(super) fn invalid(&self, line: u64, problem: &str) -> TaskError {
        let path = self.path.display();
        TaskError::invalid(InvalidInput(format!("{path}, line {line}: {problem}")))
    }

    /// Returns `error`, which a task met at the record that begins at byte `offset`. If it is about
    /// an invalid row, the result names the line of the record instead of its key. If the file has
    /// changed, the result names that change as the cause.
    pub(super) fn placed(&self, offset: u64, error: TaskError) -> TaskError {
        let Some(row) = InvalidRow::of(&error) else {
            return error;
        };
        match self.check().and_then(|()| self.line_at(offset)) {
            Ok(line) => self.invalid(line, &row.problem),
            Err(source) => self.failed(source),
        }
    }

    /// Returns the number of the line that begins at byte `offset`, from 1. Reads the file up to
    /// this line, which costs time only after an error.
    fn line_at(&self, offset: u64) -> io::Result<u64> {
        let file = File::open(&self.path)?;
        let line_ends = match self.content {
            Content::Plain => count_line_ends(file.take(offset)),
            Content::Gzip => count_line_ends(gunzip(file).take(offset)),
        };
        Ok(line_ends? + 1)
    }
}

/// A file whose first bytes show that it is not text, or that cannot be read.
#[derive(Debug)]
pub(super) struct BadFile {
    path: PathBuf,
    problem: BadStart,
}

#[derive(Debug)]
enum BadStart {
    NotText(NotText),
    Unreadable(io::Error),
}

impl BadFile {
    /// Returns the error that describes the problem of the file.
    pub(super) fn into_error(self) -> TaskError {
        self.error("")
    }

    /// Returns the error of a job that fails because of a bad file. It mentions the option that
    /// skips such files.
    pub(super) fn refused(self) -> TaskError {
        self.error("; --skip-bad leaves such files out")
    }

    fn error(self, advice: &str) -> TaskError {
        let path = self.path.display();
        match self.problem {
            BadStart::Unreadable(source) => TaskError::io(format!("reading {path}"))(source),
            BadStart::NotText(NotText::Foreign(foreign)) => {
                TaskError::invalid(InvalidInput(format!("{path} {foreign}{advice}")))
            }
            BadStart::NotText(not_text @ NotText::Bytes { .. }) => {
                TaskError::invalid(InvalidInput(format!("{path}, {not_text}{advice}")))
            }
        }
    }
}

/// Appends the files in `root`, a file or a directory, to `files`, in the order of their names. In
/// the keys of their records, the names of the files begin with `called` in place of `root`.
///
/// # Errors
/// When `root` is not there, or a directory cannot be read.
pub(super) fn find(
    root: &Path,
    called: &Path,
    files: &mut Vec<Result<DataFile, BadFile>>,
) -> Result<(), TaskError> {
    check_exists(root).map_err(TaskError::failed)?;
    let is_data = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().as_bytes();
        entry.depth() == 0 || !(name.starts_with(b".") || name.starts_with(b"_"))
    };
    let entries = WalkDir::new(root).sort_by_file_name();
    for entry in entries.into_iter().filter_entry(is_data) {
        let entry = entry.map_err(|e| {
            let at = e.path().unwrap_or(root).display().to_string();
            let cause = e.into_io_error();
            let cause = cause.unwrap_or_else(|| io::Error::other("links lead in a circle"));
            TaskError::io(format!("looking for files in {at}"))(cause)
        })?;
        if entry.path().is_dir() {
            continue;
        }
        let path = entry.into_path();
        let name = match path.strip_prefix(root) {
            Ok(below) if below != Path::new("") => called.join(below),
            _ => called.to_path_buf(),
        };
        let problem = match DataFile::new(path.clone(), &name) {
            Ok(Ok(file)) => {
                files.push(Ok(file));
                continue;
            }
            Ok(Err(not_text)) => BadStart::NotText(not_text),
            Err(source) => BadStart::Unreadable(source),
        };
        files.push(Err(BadFile { path, problem }));
    }
    Ok(())
}
