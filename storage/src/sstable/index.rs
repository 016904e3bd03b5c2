//! The index: for each data block its last version and where it lies.
//!
//! It has the form of a block with a restart point at every entry, so that a
//! search is one binary search; an entry's key and sequence number are those of
//! the data block's *last* version, its value is the block's handle. Because the
//! sequence number counts, the versions of one key may span blocks and a seek
//! still goes to the right one. See the book, Formats: SSTable.

use bytes::Bytes;

use super::block::Block;
use super::block_builder::BlockBuilder;
use super::block_cursor::BlockCursor;
use super::damage::Damage;
use super::handle::BlockHandle;
use crate::key::{Kind, SeqNo};

/// The payload of an index without entries: no restart points.
const EMPTY: [u8; 4] = [0; 4];

/// The index of an open table, in memory.
#[derive(Debug)]
pub(super) struct Index {
    block: Block,
}

impl Index {
    pub(super) fn decode(payload: Bytes) -> Result<Self, Damage> {
        let block = if *payload == EMPTY {
            Block::empty()
        } else {
            Block::new(payload)?
        };
        Ok(Self { block })
    }

    /// Whether there is no data block: the table has range tombstones only.
    pub(super) fn is_empty(&self) -> bool {
        self.block.entries_end() == 0
    }

    /// The one data block that can hold the first version `>= (key, seq)`;
    /// `None` when all versions are smaller.
    pub(super) fn find(&self, key: &[u8], seq: SeqNo) -> Result<Option<BlockHandle>, Damage> {
        let found = self.block.find(key, seq)?;
        found
            .map(|found| BlockHandle::from_varints(&self.block.value(found.entry.value)))
            .transpose()
    }

    /// The block that it is.
    pub(super) fn block(&self) -> &Block {
        &self.block
    }

    /// A cursor over the data blocks; its values are handles.
    pub(super) fn cursor(&self) -> BlockCursor {
        BlockCursor::new(self.block.clone())
    }
}

/// Collects the index of a table being written.
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    value: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self {
            block: BlockBuilder::new(1),
            value: Vec::new(),
        }
    }

    /// Adds a data block that ends with `(key, seq)`.
    pub(super) fn add(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.value.clear();
        handle.put_varints(&mut self.value);
        self.block.add(key, seq, Kind::Put, &self.value);
    }

    /// The payload that [`Index::decode`] reads.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.block.finish()
    }
}
