//! The findings of a verification.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, lossy};

/// A fault in a file of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file with the fault.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The offset of the fault in the file, in bytes; 0 if the whole file is faulty.
    pub offset: u64,
    /// A description with the expected and the found content.
    pub detail: String,
}

/// The result of a verification: the numbers of what was checked, and the findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Everything that is wrong; empty when all is well.
    pub findings: Vec<Finding>,
    /// The number of SSTables, and of WAL segments that could be read.
    pub files: u64,
    /// The total size of the SSTables and of the readable WAL segments, in bytes.
    pub bytes: u64,
    /// The number of versions and range tombstones in the SSTables that could be opened.
    pub entries: u64,
    /// The number of runs that were checked.
    pub runs: u64,
    /// The number of named snapshots, according to manifest and log.
    pub bookmarks: u64,
    /// The number of commits in the WAL.
    pub wal_records: u64,
    /// Bytes behind the last good record of the WAL: the remains of writes that a crash interrupted
    /// and that were not acknowledged as durable. The next opening cuts them. An open database has
    /// none.
    pub wal_torn_bytes: u64,
    /// Bytes of the WAL that were not checked: while the verification of an open database waited, the log
    /// became longer than [`Options::wal_bytes_max`](crate::Options::wal_bytes_max), and the database removed
    /// segments. 0 if the log was checked to its end.
    #[serde(default)]
    pub wal_unchecked_bytes: u64,
    /// The paths of files that were in quarantine and are whole: [`Db::verify_all`] ended the
    /// quarantine.
    ///
    /// [`Db::verify_all`]: crate::Db::verify_all
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lifted: Vec<String>,
}

impl Finding {
    /// Adds to the description that the file is in quarantine, unless the description has that already.
    pub(super) fn note_quarantine(&mut self) {
        let note = "; it is in quarantine";
        if !self.detail.ends_with(note) {
            self.detail.push_str(note);
        }
    }
}

/// Converts an error to a finding. The finding has the path `dir` unless the error is
/// [`Error::Corruption`], [`Error::UnsupportedFormat`] or [`Error::Io`].
pub(crate) fn finding(error: Error, dir: &Path) -> Finding {
    let (path, offset, detail) = match error {
        Error::Corruption {
            path,
            offset,
            detail,
        } => (path, offset, detail),
        Error::UnsupportedFormat {
            path,
            found,
            supported,
        } => {
            let detail = format!("format version {found}; this build reads version {supported}");
            (path, 0, detail)
        }
        Error::Io { path, source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => (path, 0, "it is missing".to_string()),
            _ => (path, 0, format!("it cannot be read: {source}")),
        },
        other => (dir.to_path_buf(), 0, other.to_string()),
    };
    Finding {
        path,
        offset,
        detail,
    }
}
