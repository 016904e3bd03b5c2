//! Sequence numbers: the order of commits.

use serde::{Deserialize, Serialize};

/// A number that no counter of a database ever reaches: a billion a second would take a century. On
/// disk, this number or a larger one is damage, and sums of smaller ones do not overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// The number of an operation, in the order of commits. A commit takes consecutive numbers, one for
/// each of its operations, and is identified by the last. 0 is before all commits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// The number before every commit.
    pub const ZERO: Self = Self(0);
    /// The number after every commit.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the number after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the number before this one; `None` before all.
    pub(crate) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl std::fmt::Display for SeqNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
