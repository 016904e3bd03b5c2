//! A version of a key, its kinds, and the order of versions.

use std::cmp::Ordering;

use bytes::Bytes;

use super::SeqNo;
use super::expiry::EXPIRY_BYTES;

/// The kind of a version. Its byte is part of the file formats. There, the byte 4 means a range
/// tombstone, which is not a version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is gone (a tombstone).
    Delete = 2,
    /// The key's value changes by this operand of the table's merge operator.
    Merge = 3,
    /// The key has a value until it expires: [`crate::key::expiry`] describes the form of such values.
    ExpiringPut = 5,
}

impl Kind {
    /// Returns the kind that a byte from disk stands for; `None` for an unknown one.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::Merge),
            5 => Some(Self::ExpiringPut),
            _ => None,
        }
    }

    /// Returns whether the stored value of a version of this kind may have this length.
    pub(crate) fn fits(self, value_bytes: usize) -> bool {
        match self {
            Self::Put | Self::Merge => true,
            Self::Delete => value_bytes == 0,
            Self::ExpiringPut => value_bytes >= EXPIRY_BYTES,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    /// The value as it is stored: empty for a tombstone, an operand for a merge, and preceded by the
    /// expiry for a put that expires. A value from a block shares the memory of the block.
    pub(crate) value: Bytes,
}

/// Compares two versions: key ascending, then sequence number descending.
pub(crate) fn compare_versions(a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}
