//! Sequence numbers, record kinds and the order of versions.
//!
//! Everything sorted in this crate is sorted the same way: user key ascending
//! (bytewise), then sequence number *descending*, so that a seek to `(key, S)`
//! lands on the newest version of `key` that a reader at `S` may see.
//!
//! ```text
//!   (a, 9) < (a, 4) < (b, 12) < (b, 7) < (b, 1)
//!             ^ seek(a, 8)
//! ```

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// No counter of a database ever gets here: a billion a second would take a
/// century. A larger number on disk is damage, and sums of the others fit.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// The number of a commit: every operation takes the next one. 0 is before all.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before every commit.
    pub const ZERO: Self = Self(0);
    /// After every commit.
    pub const MAX: Self = Self(u64::MAX);

    /// The number after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number before this one; `None` before all.
    pub(crate) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl std::fmt::Display for SeqNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a version says about its key. The byte is part of the file formats; 4
/// stands there for a range tombstone, which is no version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is gone (a tombstone).
    Delete = 2,
    /// The key's value changes by this operand of the table's merge operator.
    Merge = 3,
    /// The key has a value until a time: [`crate::read::expiry`] has its form.
    ExpiringPut = 5,
}

impl Kind {
    /// The kind of a byte from disk; `None` for an unknown one.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::Merge),
            5 => Some(Self::ExpiringPut),
            _ => None,
        }
    }

    /// Whether a version of this kind may have a value of this length.
    pub(crate) fn fits(self, value_bytes: usize) -> bool {
        match self {
            Self::Put | Self::Merge => true,
            Self::Delete => value_bytes == 0,
            Self::ExpiringPut => value_bytes >= crate::read::expiry::EXPIRY_BYTES,
        }
    }
}

/// Compares two versions: key ascending, then sequence number descending.
pub fn compare_versions(a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}
