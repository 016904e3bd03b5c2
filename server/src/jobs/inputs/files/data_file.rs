//! Files as they were when the job was submitted.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ebb_scheduler::runtime::TaskError;
use memchr::memchr;
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::records::RecordError;

/// A file as it was when it was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DataFile {
    pub(super) path: PathBuf,
    /// What its keys begin with, the colon included.
    pub(super) name: Vec<u8>,
    pub(super) bytes: u64,
    modified: SystemTime,
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

/// Adds the files in `path`, a file or a directory, in the order of their names.
pub(super) fn find(path: &Path, files: &mut Vec<DataFile>) -> Result<(), TaskError> {
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
