//! The place of the rows of a job: a file, a folder of files, or the terminal.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use ebb_scheduler::runtime::TaskError;

use crate::history::WrittenFile;

/// The empty file that marks a folder of parts as complete, as in Hadoop.
pub(super) const SUCCESS: &str = "_SUCCESS";

/// The destination of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesTarget {
    /// One file, which has the rows of all partitions in their order.
    File(PathBuf),
    /// A folder with a file per partition, `part-00000.csv`, and `_SUCCESS`.
    Folder(PathBuf),
    /// Standard output; the rows of the partitions come in their order.
    Terminal,
}

impl FilesTarget {
    /// Returns whether something with the name of the target exists. A dangling link counts as
    /// existing, because a file cannot be made there; the terminal never exists.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn exists(&self) -> io::Result<bool> {
        let found = self.path().map_or(Ok(None), found)?;
        Ok(found.is_some())
    }

    /// Returns the folder in which the file or folder is made; `None` for the terminal.
    pub(crate) fn parent(&self) -> Option<&Path> {
        self.path().map(parent_of)
    }

    /// Returns the path of the file or folder; `None` for the terminal.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Terminal => None,
            Self::File(path) | Self::Folder(path) => Some(path),
        }
    }

    /// Returns the identity of the file, or of the file that marks the folder as complete. The job
    /// that made the file or folder recorded this identity before. `None` if there is no such file,
    /// and for the terminal.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn written(&self) -> io::Result<Option<WrittenFile>> {
        let found = match self {
            Self::Terminal => None,
            Self::File(path) => found(path)?,
            Self::Folder(path) => found(&path.join(SUCCESS))?,
        };
        Ok(found.as_ref().map(WrittenFile::of))
    }

    /// Checks that the file or folder can be made: nothing has its name, and its parent folder
    /// exists. Makes nothing.
    ///
    /// # Errors
    /// When the file or folder cannot be made. The error names the path and, if one is known, a
    /// remedy.
    pub fn check(&self) -> Result<(), TaskError> {
        let Some(target) = self.path() else {
            return Ok(());
        };
        let name = target.display();
        let exists = self.exists();
        if exists.map_err(TaskError::io(format!("looking for {name}")))? {
            let advice = match self {
                Self::File(_) if target.is_dir() => {
                    format!("and is a folder; write {name}/FILE for a file in it")
                }
                _ if is_special(target) => {
                    "and is no file, but a device or a pipe; write - for the terminal".to_string()
                }
                _ => "already; remove it or choose another name".to_string(),
            };
            return Err(TaskError::failed(format!("{name} exists {advice}")));
        }
        let parent = parent_of(target);
        let around = parent.display();
        match fs::metadata(parent) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(TaskError::failed(format!(
                "{around} is not a directory; choose another place for {name}"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(TaskError::failed(
                format!("no such folder: {around}; make it first (mkdir -p {around})"),
            )),
            Err(error) => Err(TaskError::io(format!("looking for {around}"))(error)),
        }
    }
}

/// Returns the metadata of the file, the folder or the link of this name; `None` if there is none.
fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns true for a device, a pipe or a socket, and for a link to one.
fn is_special(target: &Path) -> bool {
    fs::metadata(target).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Returns the folder that contains `target`.
fn parent_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
