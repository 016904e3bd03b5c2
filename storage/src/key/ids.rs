//! The ids of tables, runs and files; none is ever used twice.

use serde::{Deserialize, Serialize};

/// The id of a table; never used twice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub(crate) struct TableId(pub(crate) u32);

/// The id of a run; no two runs of a database ever have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The number in the name of a file. Manifests, WAL segments and SSTables each have their own
/// series, and no number is used twice in a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct FileNumber(pub(crate) u64);

impl FileNumber {
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Default for FileNumber {
    /// Returns the first number that a file gets, 1.
    fn default() -> Self {
        Self(1)
    }
}
