//! The errors of loads.

use std::io;
use std::path::{Path, PathBuf};

use super::reader::{ForeignContent, RecordError};
use super::walk::{SkipReason, Skipped};

/// The reason why a load failed. Nothing was loaded, except perhaps after [`LoadError::Store`].
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A row is invalid: a malformed record, a missing key, bytes that are not text.
    #[error("{}: line {line}: {problem}; nothing was loaded", path.display())]
    Row {
        path: PathBuf,
        /// The line that the row begins in, from 1.
        line: u64,
        /// The fault of the row, and a way to correct it.
        problem: String,
    },
    /// A file cannot be opened, or not be read to its end.
    #[error("cannot read {}, line {line}; nothing was loaded", path.display())]
    Read {
        path: PathBuf,
        /// The line at which reading failed, from 1.
        line: u64,
        source: io::Error,
    },
    /// The format of a file is unknown, or its columns differ from those of an earlier file.
    #[error("{}: {problem}; nothing was loaded", path.display())]
    File {
        path: PathBuf,
        /// The fault of the file, and a way to correct it.
        problem: String,
    },
    /// Two rows have the same key.
    #[error(
        "key \"{}\" is there twice: in line {} of {} and in line {} of {}; nothing was loaded; \
         --duplicates last takes the last one",
        key.escape_ascii(), first.1, first.0.display(), second.1, second.0.display()
    )]
    Duplicate {
        key: Vec<u8>,
        /// The file and the line of the earlier of the two rows.
        first: (PathBuf, u64),
        /// The file and the line of the later one.
        second: (PathBuf, u64),
    },
    /// The caller cancelled the load.
    #[error("the load was cancelled; nothing was loaded")]
    Cancelled,
    /// Rows cannot be written to the scratch folder, or not be read back from it.
    #[error("cannot write rows that wait in {}; nothing was loaded", path.display())]
    Scratch {
        /// The scratch folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The system cannot start another thread.
    #[error("cannot start a thread; nothing was loaded; take fewer --threads")]
    Thread { source: io::Error },
    /// The store failed. After a failed write of the log, the rows may have been loaded: see
    /// [`Sorted::ingest`](crate::Sorted::ingest).
    #[error(transparent)]
    Store(#[from] ebb_storage::Error),
}

/// A problem at one place of a file.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: u64,
    pub(super) what: Cause,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// The content is invalid.
    Bad(String),
    /// Reading failed.
    Io(io::Error),
    /// The load was cancelled; the file is not the cause.
    Cancelled,
}

impl Problem {
    pub(super) fn bad(line: u64, what: impl Into<String>) -> Self {
        let what = Cause::Bad(what.into());
        Self { line, what }
    }

    /// Returns the problem of a failed read; [`Cause::Cancelled`] if `error` is a [`CancelledRead`].
    pub(super) fn io(line: u64, error: io::Error) -> Self {
        let what = if error.get_ref().is_some_and(|e| e.is::<CancelledRead>()) {
            Cause::Cancelled
        } else {
            Cause::Io(error)
        };
        Self { line, what }
    }

    pub(super) fn of(self, path: &Path) -> LoadError {
        let (path, line) = (path.to_path_buf(), self.line);
        match self.what {
            Cause::Bad(problem) => LoadError::Row {
                path,
                line,
                problem,
            },
            Cause::Io(source) => LoadError::Read { path, line, source },
            Cause::Cancelled => LoadError::Cancelled,
        }
    }
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Io { line, source } => Self::io(line, source),
            RecordError::Malformed { line, problem } => Self::bad(line, problem),
        }
    }
}

impl From<ForeignContent> for Problem {
    fn from(foreign: ForeignContent) -> Self {
        Self::bad(1, format!("it {foreign}"))
    }
}

impl LoadError {
    /// Returns the file and the reason to skip it, if a single file causes the error; otherwise `None`.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        let (path, reason) = match self {
            Self::Row {
                path,
                line,
                problem,
            } => (path, SkipReason::Bad(format!("line {line}: {problem}"))),
            Self::Read { path, source, .. } => (path, SkipReason::Unreadable(source.to_string())),
            Self::File { path, problem } => (path, SkipReason::Bad(problem.clone())),
            _ => return None,
        };
        let path = path.clone();
        Some(Skipped { path, reason })
    }
}

/// The error that readers return once the load is cancelled.
#[derive(Debug, thiserror::Error)]
#[error("the load was cancelled")]
pub(super) struct CancelledRead;

impl CancelledRead {
    pub(super) fn error() -> io::Error {
        io::Error::other(Self)
    }
}
