//! A position in one block, movable in both directions.

use std::ops::Range;

use bytes::Bytes;

use super::block::Block;
use super::damage::Damage;
use crate::key::{Kind, SeqNo};

/// Walks a [`Block`]. A new cursor stands on no entry, and neither does a cursor that has found
/// damage.
///
/// Unlike [`Block::find`] it assembles the whole key, because [`Cursor`](crate::key::Cursor)
/// returns it as a slice; the buffer lives as long as the cursor.
#[derive(Debug)]
pub(super) struct BlockCursor {
    block: Block,
    valid: bool,
    key: Vec<u8>,
    seq: SeqNo,
    kind: Kind,
    value: Range<usize>,
    start: usize,
    end: usize,
}

impl BlockCursor {
    pub(super) fn new(block: Block) -> Self {
        Self {
            block,
            valid: false,
            key: Vec::new(),
            seq: SeqNo::ZERO,
            kind: Kind::Put,
            value: 0..0,
            start: 0,
            end: 0,
        }
    }

    /// Replaces the block, and returns the old one. The cursor then stands on no entry.
    pub(super) fn replace(&mut self, block: Block) -> Block {
        self.valid = false;
        std::mem::replace(&mut self.block, block)
    }

    /// Leaves the current entry: the cursor then stands on none.
    pub(super) fn clear(&mut self) {
        self.valid = false;
    }

    pub(super) fn valid(&self) -> bool {
        self.valid
    }

    pub(super) fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.key
    }

    pub(super) fn seq(&self) -> SeqNo {
        debug_assert!(self.valid);
        self.seq
    }

    pub(super) fn kind(&self) -> Kind {
        debug_assert!(self.valid);
        self.kind
    }

    /// Returns the value of the current entry; it shares the block's memory and keeps it alive.
    #[inline]
    pub(super) fn value(&self) -> Bytes {
        debug_assert!(self.valid);
        self.block.value(self.value.clone())
    }

    /// Moves to the first entry `>= (key, seq)`; to no entry if there is none.
    pub(super) fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<(), Damage> {
        self.valid = false;
        if let Some(found) = self.block.find(key, seq)? {
            let entry = found.entry;
            self.key.clear();
            self.key.extend_from_slice(&key[..entry.shared]);
            self.key.extend_from_slice(entry.suffix);
            self.seq = entry.seq;
            self.kind = entry.kind;
            self.value = entry.value;
            self.start = entry.start;
            self.end = entry.end;
            self.valid = true;
        }
        Ok(())
    }

    /// Moves to the last entry `< (key, seq)`; to no entry if there is none.
    pub(super) fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<(), Damage> {
        self.valid = false;
        let limit = match self.block.find(key, seq)? {
            Some(found) => found.entry.start,
            None => self.block.entries_end(),
        };
        self.move_to_last_before(limit)
    }

    pub(super) fn seek_to_first(&mut self) -> Result<(), Damage> {
        self.valid = false;
        if self.block.entries_end() == 0 {
            return Ok(());
        }
        self.read(0, 0)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<(), Damage> {
        self.valid = false;
        self.move_to_last_before(self.block.entries_end())
    }

    /// Moves to the next entry; to no entry at the end of the block.
    ///
    /// # Panics
    /// If the cursor stands on no entry.
    #[inline]
    pub(super) fn next(&mut self) -> Result<(), Damage> {
        assert!(self.valid, "next on a cursor that stands nowhere");
        self.valid = false;
        if self.end < self.block.entries_end() {
            self.read(self.end, self.key.len())?;
        }
        Ok(())
    }

    /// Moves to the entry before; to no entry at the start of the block. Walks from the restart
    /// point before the current entry, because an entry does not contain the position of its
    /// predecessor.
    ///
    /// # Panics
    /// If the cursor stands on no entry.
    pub(super) fn prev(&mut self) -> Result<(), Damage> {
        assert!(self.valid, "prev on a cursor that stands nowhere");
        self.valid = false;
        self.move_to_last_before(self.start)
    }

    /// Moves to the entry that ends at the offset `limit`, or to no entry if `limit` is 0.
    fn move_to_last_before(&mut self, limit: usize) -> Result<(), Damage> {
        if limit == 0 {
            return Ok(());
        }
        // The restart points below `low` lie before `limit`; the first always does.
        let (mut low, mut high, mut from) = (1, self.block.restarts(), 0);
        while low < high {
            let middle = low + (high - low) / 2;
            let offset = self.block.restart(middle)?;
            if offset < limit {
                from = offset;
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.read(from, 0)?;
        while self.end < limit {
            self.read(self.end, self.key.len())?;
        }
        if self.end != limit {
            self.valid = false;
            return Err(self.block.bad_entry(limit, "starts inside of another"));
        }
        Ok(())
    }

    /// Reads the entry at the offset `start`. The entry may share at most the first `known` bytes
    /// of `self.key`, the key of the entry before it.
    #[inline]
    fn read(&mut self, start: usize, known: usize) -> Result<(), Damage> {
        self.valid = false;
        let entry = self.block.entry(start)?;
        if entry.shared > known {
            return Err(self
                .block
                .bad_entry(start, "shares more than the key before has"));
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        self.seq = entry.seq;
        self.kind = entry.kind;
        self.value = entry.value;
        self.start = entry.start;
        self.end = entry.end;
        self.valid = true;
        Ok(())
    }
}
