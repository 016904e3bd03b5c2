//! The ways to read that the section compares.

use serde::{Deserialize, Serialize};

/// The stores and ways to read that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Merges know no boundaries, and there is no snapshot.
    Original,
    /// Merges know boundaries, and there is no snapshot (S/R).
    Regular,
    /// Live reads beside a snapshot taken before the first execution (S/RwS).
    BesideSnapshot,
    /// Reads of that snapshot (S/SR, S/1).
    Snapshot,
    /// Reads of a snapshot taken before each execution and kept (S/N).
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
    /// Those of Table 5.5 and figures 5.9 and 5.10.
    pub const TWO: [Self; 2] = [Self::Original, Self::Snapshot];
    /// Those of Figure 5.12.
    pub const OVER_ITERATIONS: [Self; 3] = [Self::Original, Self::Snapshot, Self::NewestSnapshot];

    /// The thesis's name for it.
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
