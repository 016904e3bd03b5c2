//! The ids of tables, runs and files.

use serde::{Deserialize, Serialize};

/// The id of a table. No other table of the database ever gets it, even after the table is dropped.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub(crate) struct TableId(pub(crate) u32);

/// The id of a run: a sorted set of SSTables of one table. No two runs that a database has at the same
/// time have the same id. After the database was reopened, a new run may get the id of one that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The number in the name of a file. Manifests, WAL segments and SSTables each have their own
/// series of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct FileNumber(pub(crate) u64);

impl FileNumber {
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Default for FileNumber {
    /// Returns the first number of a series, 1.
    fn default() -> Self {
        Self(1)
    }
}
