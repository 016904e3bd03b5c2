//! Files as they were when the job was submitted.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ebb_scheduler::runtime::TaskError;
use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::content::{Content, content_of};
use super::record_error::RecordError;
use crate::inputs::lines::gunzip;
use crate::records::{InvalidInput, InvalidRow};

/// A file as it was when it was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DataFile {
    pub(super) path: PathBuf,
    /// What its keys begin with, the colon included.
    pub(super) name: Vec<u8>,
    /// As it lies on the disk.
    pub(super) bytes: u64,
    pub(super) content: Content,
    modified: SystemTime,
}

impl DataFile {
    fn new(path: PathBuf, name: &Path) -> io::Result<Result<Self, &'static str>> {
        let metadata = fs::metadata(&path)?;
        // A pipe or a device: it has no length, and no part of it can be read again.
        if !metadata.is_file() {
            return Err(io::Error::other(
                "it is neither a file nor a directory; write what it gives into a file first",
            ));
        }
        // Missing permission is an error now, and not in a task.
        let content = match content_of(&mut File::open(&path)?)? {
            Ok(content) => content,
            Err(unread) => return Ok(Err(unread)),
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

    /// That it is as it was when it was cut into parts.
    pub(super) fn check(&self) -> io::Result<()> {
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
    pub(super) fn border(&self, at: u64) -> io::Result<u64> {
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

    pub(super) fn failed(&self, error: impl Into<RecordError>) -> TaskError {
        match error.into() {
            RecordError::Io(source) => {
                TaskError::io(format!("reading {}", self.path.display()))(source)
            }
            RecordError::Invalid { offset, problem } => self.invalid(offset, &problem),
        }
    }

    /// What begins at byte `offset` of the text has a problem; says so by its line.
    pub(super) fn invalid(&self, offset: u64, problem: &str) -> TaskError {
        let path = self.path.display();
        let place = match self.line_at(offset) {
            Ok(line) => format!("line {line}"),
            Err(_) => format!("byte {offset}"),
        };
        TaskError::invalid(InvalidInput(format!("{path}, {place}: {problem}")))
    }

    /// The error of a task at the record that begins at byte `offset`. It names an invalid
    /// row by its line instead of its key.
    pub(super) fn placed(&self, offset: u64, error: TaskError) -> TaskError {
        match InvalidRow::of(&error) {
            Some(row) => self.invalid(offset, &row.problem),
            None => error,
        }
    }

    /// The number of the line that begins at byte `offset`, from 1. Reads all before it:
    /// lines are counted only for an error.
    fn line_at(&self, offset: u64) -> io::Result<u64> {
        let mut text: Box<dyn Read> = match self.content {
            Content::Plain => Box::new(File::open(&self.path)?.take(offset)),
            Content::Gzip => Box::new(gunzip(&self.path)?.take(offset)),
        };
        let mut buffer = vec![0; 64 << 10];
        let mut lines = 1;
        loop {
            match text.read(&mut buffer)? {
                0 => return Ok(lines),
                read => lines += memchr_iter(b'\n', &buffer[..read]).count() as u64,
            }
        }
    }
}

/// Adds the files in `root`, a file or a directory, in the order of their names. Their
/// keys call it `called`.
pub(super) fn find(root: &Path, called: &Path, files: &mut Vec<DataFile>) -> Result<(), TaskError> {
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
        let file = DataFile::new(path.clone(), &name);
        let file = file.map_err(TaskError::io(format!("reading {}", path.display())))?;
        files.push(file.map_err(|unread| {
            TaskError::invalid(InvalidInput(format!(
                "{} is a file in the format {unread}, which is not read: make text, CSV or JSON \
                 lines of it, plain or compressed by gzip",
                path.display()
            )))
        })?);
    }
    Ok(())
}
