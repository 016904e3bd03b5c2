//! The location of a block in its file.

use super::damage::Damage;
use crate::varint;

/// Position and length of a stored block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHandle {
    /// File offset of the first byte.
    pub(super) offset: u64,
    /// Stored length in bytes, with compression type and checksum.
    pub(super) len: u64,
}

impl BlockHandle {
    /// Returns the offset of the first byte after the block; `None` if it is above [`u64::MAX`].
    pub(super) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }

    /// Appends the handle as the index stores it: two varints.
    pub(super) fn put_varints(self, out: &mut Vec<u8>) {
        varint::put(out, self.offset);
        varint::put(out, self.len);
    }

    /// Reads a handle as the index stores it; it must fill `bytes`.
    pub(super) fn from_varints(bytes: &[u8]) -> Result<Self, Damage> {
        let mut at = 0;
        let offset = varint::get(bytes, &mut at);
        let len = varint::get(bytes, &mut at);
        match (offset, len) {
            (Some(offset), Some(len)) if at == bytes.len() => Ok(Self { offset, len }),
            _ => Err(Damage(format!(
                "an index entry's value {bytes:02x?} is not an offset and a length"
            ))),
        }
    }
}
