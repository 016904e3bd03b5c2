//! Chunks of memory that wait for the next memtable of a database.
//!
//! Memory fresh from the system is cleared and mapped page by page at the first touch, which costs
//! a writer more than what it writes there. The chunks of a flushed memtable are mapped already.

use std::sync::Mutex;

use super::chunk::{CHUNK_BYTES, Chunk};

/// Free chunks of [`CHUNK_BYTES`]: at most as many as one memtable fills.
///
/// The lock is one of std even under loom and shuttle: it is held only for a moment, and no other
/// lock is taken meanwhile.
#[derive(Debug, Default)]
pub(crate) struct ChunkPool {
    free: Mutex<Vec<Chunk>>,
    chunks_max: usize,
}

impl ChunkPool {
    /// Returns a pool that keeps as many free chunks as a memtable of `memtable_bytes` fills.
    pub(crate) fn new(memtable_bytes: usize) -> Self {
        Self {
            free: Mutex::default(),
            chunks_max: memtable_bytes / CHUNK_BYTES,
        }
    }

    pub(super) fn take(&self) -> Option<Chunk> {
        self.free.lock().unwrap().pop()
    }

    /// Adds chunks of [`CHUNK_BYTES`] that are no longer used, until the pool is full. The chunks for
    /// which it has no room are freed.
    pub(super) fn give(&self, chunks: impl Iterator<Item = Chunk>) {
        if self.chunks_max == 0 {
            return;
        }
        let mut free = self.free.lock().unwrap();
        let room = self.chunks_max.saturating_sub(free.len());
        free.extend(chunks.take(room));
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.free.lock().unwrap().len()
    }
}
