//! Sequence numbers: the order of commits.

use serde::{Deserialize, Serialize};

/// A number that no counter of a database ever reaches: at a billion a second, that would take more
/// than a century. On disk, this number or a larger one is damage. The sum of up to four smaller ones
/// does not overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// The sequence number of an operation: operations are numbered in the order of commits. A commit
/// takes consecutive numbers, one for each of its operations, and is identified by its last number.
/// 0 is before all commits.
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

    /// Returns the number before this one; `None` for [`Self::ZERO`].
    pub(crate) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl std::fmt::Display for SeqNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
