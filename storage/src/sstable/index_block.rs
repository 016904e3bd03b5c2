//! The stored form that both levels of the index have: a block with a restart point at every
//! entry, whose keys and numbers are bounds that ascend. See the book, Formats: SSTable.

use bytes::Bytes;

use super::block::Block;
use super::damage::Damage;
use crate::key::{Kind, SeqNo, compare_versions};

/// The payload of an index without entries: no restart points.
const EMPTY: [u8; 4] = [0; 4];

/// The smallest size of an entry of the index, in bytes: three lengths, the kind and the sequence
/// number of the bound, and a value (a block's handle) of two bytes.
const ENTRY_BYTES_MIN: usize = 7;
/// The largest size of an entry of the index beside its key, in bytes: three lengths, the kind and
/// the sequence number of the bound, a value of three numbers, and a restart point.
pub(super) const ENTRY_BYTES_MAX: usize = 3 * 5 + 1 + 10 + 3 * 10 + 4;

/// The payload of an index. The number of its restart points has been checked, but its entries have
/// not.
pub(super) struct IndexBlock(Block);

#[derive(Debug, Clone, Copy)]
pub(super) struct StoredEntry<'a> {
    pub(super) key: &'a [u8],
    pub(super) seq: SeqNo,
    pub(super) value: &'a [u8],
}

impl IndexBlock {
    /// Checks that the payload has room for its restart points.
    ///
    /// # Errors
    /// `Damage`.
    pub(super) fn new(payload: Bytes) -> Result<Self, Damage> {
        if *payload == EMPTY {
            Ok(Self(Block::empty()))
        } else {
            Block::new(payload).map(Self)
        }
    }

    /// Decodes the entries of the index.
    ///
    /// # Errors
    /// `Damage` unless every entry is a restart point, and the bounds ascend.
    pub(super) fn entries(&self) -> Result<Vec<StoredEntry<'_>>, Damage> {
        let block = &self.0;
        let mut at = 0;
        // Bounded, because a damaged number of restart points may be too large.
        let entries_max = block.entries_end() / ENTRY_BYTES_MIN;
        let mut entries = Vec::with_capacity(block.restarts().min(entries_max));
        let mut before: Option<StoredEntry<'_>> = None;
        for i in 0..block.restarts() {
            let start = block.restart(i)?;
            let entry = block.entry(start)?;
            if start != at {
                return Err(Damage(format!(
                    "entry {i} of the index is at byte {at}, its restart point at {start}"
                )));
            }
            if entry.shared != 0 {
                return Err(block.bad_entry(at, "is of the index and shares key bytes"));
            }
            if entry.kind != Kind::Put {
                return Err(block.bad_entry(at, "is of the index and no put"));
            }
            let here = StoredEntry {
                key: entry.suffix,
                seq: entry.seq,
                value: block.value_bytes(entry.value),
            };
            let is_above = |before: StoredEntry<'_>| {
                compare_versions((before.key, before.seq), (here.key, here.seq)).is_lt()
            };
            if !before.is_none_or(is_above) {
                return Err(block.bad_entry(at, "is of the index and not above the one before"));
            }
            before = Some(here);
            entries.push(here);
            at = entry.end;
        }
        if at != block.entries_end() {
            return Err(block.bad_entry(at, "is of the index and no restart point"));
        }
        Ok(entries)
    }
}
