//! What a verification found.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, lossy};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Byte offset of what is wrong; 0 where it is the file as a whole.
    pub offset: u64,
    /// What was expected and what was found.
    pub detail: String,
}

/// What was looked at, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct VerifyReport {
    /// Everything that is wrong; empty when all is well.
    pub findings: Vec<Finding>,
    /// SSTables and WAL segments read.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Versions and range tombstones in the SSTables.
    pub entries: u64,
    /// Runs.
    pub runs: u64,
    /// Named snapshots, by manifest and log.
    pub bookmarks: u64,
    /// Commits in the WAL.
    pub wal_records: u64,
    /// Bytes behind the last good record of the WAL: what a crash left of
    /// writes that were not acknowledged as durable. The next opening cuts them.
    pub wal_torn_bytes: u64,
}

/// An error as a finding; one that names no file is of the directory.
pub(crate) fn finding(error: Error, dir: &Path) -> Finding {
    match error {
        Error::Corruption {
            path,
            offset,
            detail,
        } => Finding {
            path,
            offset,
            detail,
        },
        Error::UnsupportedFormat {
            path,
            found,
            supported,
        } => Finding {
            path,
            offset: 0,
            detail: format!("format version {found}; this build reads version {supported}"),
        },
        Error::Io { path, source, .. } => Finding {
            path,
            offset: 0,
            detail: match source.kind() {
                std::io::ErrorKind::NotFound => "it is missing".to_string(),
                _ => format!("it cannot be read: {source}"),
            },
        },
        other => Finding {
            path: dir.to_path_buf(),
            offset: 0,
            detail: other.to_string(),
        },
    }
}
