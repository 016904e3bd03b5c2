//! Checks of the files that users name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a file that a user names cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No file or folder of this name exists.
    #[error("no such file: {}", path.display())]
    Missing { path: PathBuf },
    /// The content is not text that ebb reads, or it is too long. Also the error if a file has the
    /// name of standard input, and both are to be loaded.
    #[error("{}: {problem}", path.display())]
    Malformed {
        path: PathBuf,
        /// The problem, with its line if the text has a wrong byte, and a remedy if there is one.
        problem: String,
    },
    /// The system cannot read the file for another reason, for example a lack of permission.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

impl FileError {
    /// Classifies an error that the system returned for the file `path`: [`Self::Missing`] if the path
    /// does not exist, otherwise [`Self::Unreadable`].
    pub fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            // In this case a part of the path is a file.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing { path },
            _ => Self::Unreadable { path, source },
        }
    }
}

/// Checks that a file or folder exists at `path`.
///
/// # Errors
/// [`FileError::Missing`]. Other errors are left to the reader of the file.
pub fn check_exists(path: &Path) -> Result<(), FileError> {
    match path
        .metadata()
        .map_err(|source| FileError::of(path, source))
    {
        Err(missing @ FileError::Missing { .. }) => Err(missing),
        _ => Ok(()),
    }
}

/// Checks that `path` exists and, if it is a regular file, that it can be opened for reading.
///
/// # Errors
/// [`FileError::Missing`]; [`FileError::Unreadable`] for every other error of the system.
pub fn check_readable(path: &Path) -> Result<(), FileError> {
    let metadata = path.metadata();
    let opened = metadata.and_then(|metadata| {
        if metadata.is_file() {
            File::open(path).map(drop)
        } else {
            Ok(())
        }
    });
    opened.map_err(|source| FileError::of(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_exist_is_missing_for_any_error_of_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for path in [&file, &dir.path().to_path_buf()] {
            check_exists(path).unwrap();
            check_readable(path).unwrap();
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [dir.path().join("nope"), file.join("below"), link] {
            for checked in [check_exists(&path), check_readable(&path)] {
                let error = checked.unwrap_err().to_string();
                assert_eq!(error, format!("no such file: {}", path.display()));
            }
        }
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = FileError::of(&file, refused).to_string();
        assert!(
            error.starts_with("cannot read ") && error.contains("permission"),
            "{error}"
        );
    }
}
