//! Why a load ended with nothing in the table.

use std::io;
use std::path::{Path, PathBuf};

use super::reader::{ForeignContent, RecordError};
use super::walk::{SkipReason, Skipped};

/// Nothing was loaded, for this reason.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A row cannot be one: a broken record, a missing key, bytes that are no text.
    #[error("{}: line {line}: {problem}; nothing was loaded", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line that the row begins in, from 1.
        line: u64,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A file cannot be read to its end.
    #[error("cannot read {}, line {line}; nothing was loaded", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that was to be read, from 1.
        line: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// A file cannot be opened, or its rows make no sense together with the options.
    #[error("{}: {problem}; nothing was loaded", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// Two rows have the same key.
    #[error(
        "key \"{}\" is there twice: in line {} of {} and in line {} of {}; nothing was loaded; \
         --duplicates last takes the last one",
        key.escape_ascii(), first.1, first.0.display(), second.1, second.0.display()
    )]
    Duplicate {
        /// The key.
        key: Vec<u8>,
        /// The file and the line of the first row.
        first: (PathBuf, u64),
        /// The file and the line of the other.
        second: (PathBuf, u64),
    },
    /// Somebody asked for it.
    #[error("the load was cancelled; nothing was loaded")]
    Cancelled,
    /// Rows cannot wait in the scratch folder.
    #[error("cannot write rows that wait in {}; nothing was loaded", path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The system has no thread for it.
    #[error("cannot start a thread; nothing was loaded; take fewer --threads")]
    Thread {
        /// The system's answer.
        source: io::Error,
    },
    /// What the store says.
    #[error(transparent)]
    Store(#[from] ebb_storage::Error),
}

/// What is wrong in one place of a file.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The content.
    Bad(String),
    /// The reading.
    Io(io::Error),
    /// Nothing: the load is to end.
    Cancelled,
}

impl Problem {
    pub(super) fn bad(line: u64, what: impl Into<String>) -> Self {
        let what = What::Bad(what.into());
        Self { line, what }
    }

    /// A file that cannot be read, unless the load is to end.
    pub(super) fn io(line: u64, error: io::Error) -> Self {
        let what = if error.get_ref().is_some_and(|e| e.is::<CancelledRead>()) {
            What::Cancelled
        } else {
            What::Io(error)
        };
        Self { line, what }
    }

    pub(super) fn of(self, path: &Path) -> LoadError {
        let (path, line) = (path.to_path_buf(), self.line);
        match self.what {
            What::Bad(problem) => LoadError::Row {
                path,
                line,
                problem,
            },
            What::Io(source) => LoadError::Read { path, line, source },
            What::Cancelled => LoadError::Cancelled,
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
    /// Whether it is a file's own fault, and which reason there is to pass it over.
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

/// What a reader answers when the load is to end.
#[derive(Debug, thiserror::Error)]
#[error("the load was cancelled")]
pub(super) struct CancelledRead;

impl CancelledRead {
    pub(super) fn error() -> io::Error {
        io::Error::other(Self)
    }
}
