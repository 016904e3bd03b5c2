//! The report on damaged files: the loss of each, and whether it was rewritten.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::lossy;
use crate::maintenance::Lost;

/// The result of [`Db::list_lost`](crate::Db::list_lost) and
/// [`Db::rewrite_damaged`](crate::Db::rewrite_damaged).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LossReport {
    /// The files of the table that are damaged, missing or unreadable.
    pub files: Vec<FileLoss>,
    /// The token with which a caller of [`Db::rewrite_damaged`](crate::Db::rewrite_damaged) accepts
    /// exactly these losses: a hash of the files and of what they lost. `None` if `files` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl LossReport {
    /// Returns the number of versions and range tombstones that are lost, over all files.
    pub fn entries_lost(&self) -> u64 {
        self.files.iter().map(|file| file.entries_lost).sum()
    }
}

/// A file that is damaged, missing or unreadable, with its loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLoss {
    /// The table of the file, as `KEYSPACE.TABLE`.
    pub table: String,
    /// The path of the damaged file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The damage, or why the file cannot be read.
    pub detail: String,
    /// The number of versions and range tombstones in the file that can be read.
    pub entries_read: u64,
    /// The number of versions and range tombstones in the file that cannot be read; 0 if no reader
    /// needs any of them.
    pub entries_lost: u64,
    /// The parts of the file that cannot be read and may have had keys that are still needed, with
    /// these keys. A damaged filter or index, for example, loses nothing.
    pub lost: Vec<Lost>,
    /// Whether the file was replaced by new files with its readable part, or was removed from the
    /// table because none of its readable part is still needed.
    pub is_rewritten: bool,
    /// The path under which the damaged file is kept after the rewrite. `None` if the file was not
    /// rewritten, if it was missing, if the disk is full, or if the file can have no second name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<String>,
}
