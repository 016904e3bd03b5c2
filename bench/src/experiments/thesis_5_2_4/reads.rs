//! The compared ways to read.

use serde::{Deserialize, Serialize};

/// A way to read, and the variant of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Without snapshots, and with merges that ignore the boundaries of snapshots.
    Original,
    /// Without snapshots, and with regular merges: S/R in the thesis.
    Regular,
    /// Live reads beside a snapshot that was taken before the first execution of the
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
    /// The columns of tables 5.3 and 5.4.
    pub const COLUMNS: [Self; 4] = [
        Self::Original,
        Self::Regular,
        Self::BesideSnapshot,
        Self::Snapshot,
    ];
    /// The columns of Table 5.5 and of figures 5.9 and 5.10.
    pub const TWO: [Self; 2] = [Self::Original, Self::Snapshot];
    /// The lines of Figure 5.12.
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
