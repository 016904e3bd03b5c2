//! One error type for the crate: rich inside, coarse outside.
//!
//! [`Error::kind`] is the class of an error by what the caller can do; the message contains
//! what happened, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file_system::{is_fault_of_file, is_out_of_resources, resource_advice};

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`], by what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid: fix it.
    InvalidRequest,
    /// The named thing does not exist, or the directory contains no database.
    NotFound,
    /// A thing of the given name exists already.
    AlreadyExists,
    /// Another process or handle has the database open: close it there first.
    Locked,
    /// Files are damaged, unreadable, incomplete, or in a format of another build: the message says
    /// what to do.
    Corruption,
    /// A call to the operating system failed: remove the cause that the message names, then retry.
    Io,
    /// The database takes no writes, because of an earlier failure or because it was opened
    /// read-only: reopen it.
    ReadOnly,
    /// The disk is full and nothing was written: free space, then retry.
    DiskFull,
    /// Another commit came first, or it is no longer known whether one did: begin the transaction
    /// again.
    Conflict,
}

/// The errors of the storage engine.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call to the operating system failed.
    #[error("cannot {action} {}: {source}{}", path.display(), resource_advice(source))]
    Io {
        /// The operation that failed, as a verb whose object is `path`: "open", "write", "cut back".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The content of a file contradicts its checksums, the order of its entries or its format.
    #[error(
        "corrupt file {} at offset {offset}: {detail}; {}; nothing was changed",
        path.display(),
        remedy(path)
    )]
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Byte offset of the damaged part.
        offset: u64,
        /// A description of the damage, such as the checksum that was found and the expected one.
        detail: String,
    },
    /// A backup or a repair into the directory was interrupted. The incomplete copy in the directory
    /// cannot be opened, and can be removed: all of its data is also in the source.
    #[error(
        "{} is what an interrupted backup or repair left, and no database: remove it, and run the \
         backup or the repair again",
        path.display()
    )]
    Incomplete {
        /// The directory.
        path: PathBuf,
    },
    /// A file was missing or could not be read when it was opened. This is not damage: a later
    /// attempt to open the file may succeed.
    #[error(
        "cannot read {}, which may hold what is asked for: {source}; put this file back, take it \
         from a backup with `ebb restore`, or give it up with `ebb repair --online`",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// A file of a format version that this build does not know.
    #[error(
        "{} has format version {found}; this build knows version {supported} only, and changed \
         nothing: open it with the build that wrote it",
        path.display()
    )]
    UnsupportedFormat {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        found: u32,
        /// The version that this build knows.
        supported: u32,
    },
    /// Another process (or another handle) has the directory open.
    #[error(
        "{} is in use by another process, which writes or reads it; close it there first",
        path.display()
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// Another process (or another handle) has the directory open for writing, so it cannot be
    /// opened read-only.
    #[error(
        "{} is open for writing in another process, and is not read beside it; close it \
         there first, or read a backup of it",
        path.display()
    )]
    BeingWritten {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory contains no database, and the call was not to create one.
    #[error("no database in {}; check the path, or load data into it first", path.display())]
    NoDatabase {
        /// The directory.
        path: PathBuf,
    },
    /// No keyspace, table, snapshot or backup has the given name.
    #[error("no {what} named {name:?}")]
    NotFound {
        /// The kind of the thing: "keyspace", "table", "snapshot" or "backup"; "unexpired snapshot" if
        /// a snapshot has this name but has expired; "snapshot of the dropped table" if the last
        /// snapshot of a dropped table was deleted.
        what: &'static str,
        /// The name that was looked up.
        name: String,
    },
    /// A snapshot or a table of the given name exists already.
    #[error("a {what} named {name:?} exists already")]
    AlreadyExists {
        /// The kind of the thing: "snapshot" or "table".
        what: &'static str,
        /// The name that is taken.
        name: String,
    },
    /// The request is invalid; nothing was done.
    #[error("{0}")]
    InvalidRequest(String),
    /// A write or an fsync failed earlier. The content of the disk is uncertain, so the database
    /// takes no more writes until it is opened again.
    #[error(
        "the database takes no more writes since a failure ({cause}); reads go on; reopen it to recover"
    )]
    ReadOnly {
        /// The failure after which writes are refused.
        cause: Arc<str>,
    },
    /// A write to a database that was opened read-only; nothing was done.
    #[error("the database is opened read-only; open it by Db::open to write to it")]
    OpenedReadOnly,
    /// The disk is full. This write had no effect. Reads continue, and writes succeed again as
    /// soon as there is space.
    #[error("the disk is full at {}: nothing was written; free some space and retry", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// This write would leave less free space than the low-water mark
    /// ([`Options::low_water_bytes`](crate::Options::low_water_bytes)), so it had no effect.
    /// Still possible are reads, truncating and dropping tables, dropping keyspaces and deleting
    /// snapshots. Writes succeed again as soon as there is space.
    #[error(
        "the disk is full: {free_bytes} bytes are free at {}, of which writes leave \
         {low_water_bytes}; nothing was written; free some space and retry",
        path.display()
    )]
    LowSpace {
        /// The data directory.
        path: PathBuf,
        /// The free bytes on the file system of the data directory.
        free_bytes: u64,
        /// The low-water mark: the free bytes that a write must leave.
        low_water_bytes: u64,
    },
    /// The process, or the machine, can open no more files and this write needed to open one, or the
    /// system has no memory for the write. The write had no effect. Reads continue, and writes
    /// succeed again as soon as other files are closed or memory is freed.
    #[error(
        "cannot open or extend {}: {source}; nothing was written; retry{}",
        path.display(),
        resource_advice(source)
    )]
    NoDescriptor {
        /// The file that could not be opened or extended.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// A merge operator cannot fold the operands of a key. The operands stay stored.
    #[error(
        "merge operator {operator:?} fails on key \"{}\" of table {table}: {detail}; \
         overwrite or delete the key, or correct the operator",
        key.escape_ascii()
    )]
    Merge {
        /// The table, as `KEYSPACE.TABLE`.
        table: String,
        /// The key.
        key: Vec<u8>,
        /// The name of the merge operator.
        operator: String,
        /// The description that the merge operator gave.
        detail: String,
    },
    /// A commit since the transaction began wrote a key that the transaction writes or guards. The
    /// transaction had no effect.
    #[error(
        "key \"{}\" of table {table} was written by another commit since the transaction began; \
         begin it again",
        key.escape_ascii()
    )]
    Conflict {
        /// The table, as `KEYSPACE.TABLE`.
        table: String,
        /// The first key that was found in conflict.
        key: Vec<u8>,
    },
    /// The record of the keys that other commits wrote no longer reaches back to the start of the
    /// transaction, so conflicts cannot be ruled out. The transaction had no effect.
    #[error(
        "the transaction was open for too long: what other commits wrote since it began \
         is no longer known; begin it again, and commit sooner"
    )]
    TransactionTooOld,
}

impl Error {
    /// Returns the class of the error, by what the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::NoDescriptor { .. } => ErrorKind::Io,
            Self::Corruption { .. }
            | Self::Incomplete { .. }
            | Self::Unreadable { .. }
            | Self::UnsupportedFormat { .. } => ErrorKind::Corruption,
            Self::Locked { .. } | Self::BeingWritten { .. } => ErrorKind::Locked,
            Self::NoDatabase { .. } | Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::InvalidRequest(_) | Self::Merge { .. } => ErrorKind::InvalidRequest,
            Self::ReadOnly { .. } | Self::OpenedReadOnly => ErrorKind::ReadOnly,
            Self::DiskFull { .. } | Self::LowSpace { .. } => ErrorKind::DiskFull,
            Self::Conflict { .. } | Self::TransactionTooOld => ErrorKind::Conflict,
        }
    }

    /// Returns whether the cause is that the process, or the machine, has no file descriptor or no
    /// memory left: a state that passes.
    pub(crate) fn is_out_of_resources(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_out_of_resources(source),
            Self::NoDescriptor { .. } => true,
            _ => false,
        }
    }

    /// Returns whether this is the error of a write that had no effect, and may succeed later.
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind() == ErrorKind::DiskFull || matches!(self, Self::NoDescriptor { .. })
    }

    /// Converts an error for lack of space, of file descriptors or of memory into the error of a
    /// refused write, [`Error::DiskFull`] or [`Error::NoDescriptor`]. The write must have had no effect.
    ///
    /// # Errors
    /// Returns an error that has another cause unchanged.
    pub(crate) fn into_refusal(self) -> Result<Self> {
        match self {
            Self::DiskFull { .. } => Ok(self),
            Self::Io { path, source, .. } if is_out_of_resources(&source) => {
                Ok(Self::NoDescriptor { path, source })
            }
            other => Err(other),
        }
    }

    /// Returns whether this is [`Error::Corruption`], or an [`Error::Io`] because a file is missing, or the
    /// disk does not return its bytes. A lack of descriptors or memory is no fault of the file, nor is a lack
    /// of permission, nor a directory that was moved.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        match self {
            Self::Corruption { .. } => true,
            Self::Io { source, .. } => is_fault_of_file(source),
            _ => false,
        }
    }

    /// Returns whether the cause is that a file does not exist.
    pub(crate) fn is_of_missing_file(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::Unreadable { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }

    /// Returns a function (for `map_err`) that wraps an I/O error with the failed action and the path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source: Arc::new(source),
        }
    }

    /// Returns a function (for `map_err`) that wraps the error of a call that creates or extends a
    /// file: as [`Error::DiskFull`] if there is no space, and as [`Error::Io`] otherwise.
    pub(crate) fn no_space_or_io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::io(action, &path)(source),
        }
    }

    /// Returns [`Error::NotFound`] for a missing thing, given its kind (`what`) and its name.
    pub(crate) fn not_found(what: &'static str, name: impl Into<String>) -> Self {
        let name = name.into();
        Self::NotFound { what, name }
    }

    /// Returns the error for damaged bytes at `offset` in the file.
    pub(crate) fn corruption(path: &Path, offset: u64, detail: impl Into<String>) -> Self {
        Self::Corruption {
            path: path.to_path_buf(),
            offset,
            detail: detail.into(),
        }
    }
}

/// Returns what an operator can do about a damaged file, as a part of the error message.
fn remedy(path: &Path) -> &'static str {
    if path.extension().is_some_and(|extension| extension == "sst") {
        "take this file from a backup with `ebb restore`, or give up what is lost with \
         `ebb repair --online`"
    } else {
        "restore this file from a copy, or save what can be read with `ebb repair`"
    }
}

/// Serializes a path as text, for reports.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
