//! Writes blocks in the form that [`super::block`] reads.

use super::block::common_prefix_len;
use crate::key::{Kind, SeqNo};
use crate::varint;

/// Collects sorted versions into one block after another.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: u32,
    /// Entries since the last restart point. Begins as a full interval, so that
    /// the first entry is a restart point.
    since_restart: u32,
    last_key: Vec<u8>,
    last_seq: SeqNo,
}

impl BlockBuilder {
    /// Creates a builder of blocks in which every `restart_interval`-th entry,
    /// beginning with the first, has its full key. The interval is at least 1.
    pub(super) fn new(restart_interval: u32) -> Self {
        Self {
            bytes: Vec::new(),
            restarts: Vec::new(),
            restart_interval,
            since_restart: restart_interval,
            last_key: Vec::new(),
            last_seq: SeqNo::ZERO,
        }
    }

    /// Appends a version, which must come after the one before, in the order of versions.
    ///
    /// # Panics
    /// When the block grows past 4 GiB, because restart offsets have 32 bits.
    pub(super) fn add(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
        let shared = if self.since_restart == self.restart_interval {
            let offset = u32::try_from(self.bytes.len()).expect("a block stays below 4 GiB");
            self.restarts.push(offset);
            self.since_restart = 0;
            0
        } else {
            common_prefix_len(&self.last_key, key)
        };
        self.since_restart += 1;
        varint::put(&mut self.bytes, shared as u64);
        varint::put(&mut self.bytes, (key.len() - shared) as u64);
        varint::put(&mut self.bytes, value.len() as u64);
        self.bytes.push(kind as u8);
        varint::put(&mut self.bytes, seq.0);
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_seq = seq;
    }

    /// Returns whether the block has no entry yet.
    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns the number of restart points so far.
    pub(super) fn restarts(&self) -> usize {
        self.restarts.len()
    }

    /// Returns the size of the block if it were finished now, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + (self.restarts.len() + 1) * size_of::<u32>()
    }

    /// Returns the version that was added last, even if its block was cleared since.
    pub(super) fn last(&self) -> (&[u8], SeqNo) {
        (&self.last_key, self.last_seq)
    }

    /// Closes the block and returns its bytes; [`Self::clear`] begins the next
    /// one.
    pub(super) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        let count = self.restarts.len() as u32;
        self.bytes.extend_from_slice(&count.to_le_bytes());
        &self.bytes
    }

    /// Starts the next block.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.since_restart = self.restart_interval;
    }
}
