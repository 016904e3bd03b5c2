//! The compared ways to read.

use serde::{Deserialize, Serialize};

/// A way to read, together with the variant of the store on which the reads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Reads without any snapshot, on a store whose merges ignore snapshots, as if the store did
    /// not support them.
    Original,
    /// Reads without any snapshot, on the regular store, whose merges keep what snapshots need: S/R
    /// in the thesis.
    Regular,
    /// Reads of the present data while there is a snapshot, taken before the first execution of the
    /// workload: S/RwS in the thesis.
    BesideSnapshot,
    /// Reads of a snapshot that was taken before the first execution of the workload:
    /// S/SR and S/1 in the thesis.
    Snapshot,
    /// Reads of a new snapshot for each execution of the workload; older snapshots are
    /// kept. S/N in the thesis.
    NewestSnapshot,
}

impl Reads {
    /// The ways to read that the columns of the thesis's tables 5.3 and 5.4 compare.
    pub const COLUMNS: [Self; 4] = [
        Self::Original,
        Self::Regular,
        Self::BesideSnapshot,
        Self::Snapshot,
    ];
    /// The ways to read that Table 5.5 and figures 5.10 and 5.11 compare.
    pub const TWO: [Self; 2] = [Self::Original, Self::Snapshot];
    /// The ways to read that the thesis compares in Figure 5.12.
    pub const OVER_ITERATIONS: [Self; 3] = [Self::Original, Self::Snapshot, Self::NewestSnapshot];

    /// Returns the thesis's name of this way to read.
    pub fn label(self) -> &'static str {
        match self {
            Self::Original => "Original",
            Self::Regular => "S/R",
            Self::BesideSnapshot => "S/RwS",
            Self::Snapshot => "S/SR",
            Self::NewestSnapshot => "S/N",
        }
    }
}
