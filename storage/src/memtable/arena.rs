//! The memory of a memtable's entries: many threads take pieces of it at once, and it is
//! freed as a whole.
//!
//! ```text
//!   chunks    [head| a | b | c ...]  [head| d | e ..|        ]
//!                  4 KiB                 8 KiB  ▲ used          ... up to 1 MiB
//! ```
//!
//! Invariants: no two pieces share a byte, and a piece stays where it is for as long as the
//! arena lives.

#![expect(
    unsafe_code,
    reason = "the memory that it hands out is shared by writers and readers without a lock"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use super::chunk::{ALIGN_BYTES, CHUNK_BYTES, Chunk, FIRST_CHUNK_BYTES};
use super::pool::ChunkPool;
use crate::sync::in_place::{AtomicPtr, AtomicUsize};
use crate::sync::{Mutex, Ordering};

/// The header at the start of each chunk that an arena uses.
struct Head {
    /// The size of the whole chunk, in bytes.
    bytes: usize,
    /// The number of bytes that are allocated in this chunk, including this header. It is larger
    /// than `bytes` once an allocation did not fit, because a failed attempt adds to it, too.
    used: AtomicUsize,
}

const HEAD_BYTES: usize = size_of::<Head>().next_multiple_of(ALIGN_BYTES);

const _: () = assert!(align_of::<Head>() <= ALIGN_BYTES && HEAD_BYTES < FIRST_CHUNK_BYTES);

/// The memory of the entries of one memtable.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// The newest chunk; null while there is none.
    newest: AtomicPtr<Head>,
    /// The total size, in bytes, of all chunks before the newest.
    full_bytes: AtomicUsize,
    chunks: Mutex<Vec<Chunk>>,
    pool: Arc<ChunkPool>,
}

impl Arena {
    pub(super) fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            newest: AtomicPtr::default(),
            full_bytes: AtomicUsize::default(),
            chunks: Mutex::default(),
            pool,
        }
    }

    pub(super) fn pool(&self) -> &Arc<ChunkPool> {
        &self.pool
    }

    /// Allocates `bytes` uninitialised bytes, aligned to [`ALIGN_BYTES`]. No other caller gets these
    /// bytes for as long as the arena lives.
    pub(super) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGN_BYTES);
        loop {
            // Acquire: the head was written before.
            let newest = self.newest.load(Ordering::Acquire);
            if let Some(head) = NonNull::new(newest)
                && let Some(piece) = take(head, bytes)
            {
                return piece;
            }
            self.add_chunk(newest, bytes);
        }
    }

    /// Allocates a piece as [`Arena::allocate`] does, but only from the newest chunk: takes no lock,
    /// and no memory from the system. Returns `None` if that chunk has no room, or if there is none.
    pub(super) fn try_allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes.next_multiple_of(ALIGN_BYTES);
        // Acquire: the head was written before.
        let newest = NonNull::new(self.newest.load(Ordering::Acquire))?;
        take(newest, bytes)
    }

    /// Returns the number of bytes of all allocations, including the headers of the chunks and the
    /// unused ends of the chunks before the newest.
    pub(super) fn bytes(&self) -> usize {
        // In this order a chunk that becomes full meanwhile is not counted twice.
        let full = self.full_bytes.load(Ordering::Acquire);
        let newest = NonNull::new(self.newest.load(Ordering::Acquire));
        full + newest.map_or(0, |head| {
            // SAFETY: as in `take`.
            let head = unsafe { head.as_ref() };
            head.used.load(Ordering::Relaxed).min(head.bytes)
        })
    }

    /// Adds a chunk with room for `bytes`. Does nothing if `full` is not the newest chunk any more,
    /// because another thread has added one.
    fn add_chunk(&self, full: *mut Head, bytes: usize) {
        let mut chunks = self.chunks.lock().unwrap();
        if self.newest.load(Ordering::Relaxed) != full {
            return;
        }
        let full_bytes = chunks.last().map_or(0, Chunk::bytes);
        let next_bytes = (2 * full_bytes).min(CHUNK_BYTES).max(HEAD_BYTES + bytes);
        let reused = (next_bytes == CHUNK_BYTES).then(|| self.pool.take());
        let chunk = reused.flatten().unwrap_or_else(|| Chunk::new(next_bytes));
        let head = chunk.start().cast::<Head>();
        // SAFETY: the chunk is ours alone until it is published, aligned for a
        // head and larger than one.
        unsafe {
            head.write(Head {
                bytes: chunk.bytes(),
                used: AtomicUsize::new(HEAD_BYTES),
            });
        }
        chunks.push(chunk);
        self.newest.store(head.as_ptr(), Ordering::Release);
        self.full_bytes.fetch_add(full_bytes, Ordering::Release);
    }
}

/// Allocates a piece of the chunk with this head; `None` if the chunk has no room.
fn take(head: NonNull<Head>, bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a head that was published is written, and stays where it is while
    // the arena lives, which the caller borrows; all that changes is atomic.
    let (chunk_bytes, used) = unsafe { (head.as_ref().bytes, &head.as_ref().used) };
    // Relaxed: no thread reads the content of a piece because of this number.
    let at = used.fetch_add(bytes, Ordering::Relaxed);
    // SAFETY: `at + bytes` lies within the chunk, to all of which the pointer to
    // its head may go: it was made from that of the chunk.
    (at + bytes <= chunk_bytes).then(|| unsafe { head.cast::<u8>().add(at) })
}

impl Drop for Arena {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut();
        let chunks = chunks.unwrap_or_else(|poisoned| poisoned.into_inner());
        let chunks = std::mem::take(chunks).into_iter();
        self.pool
            .give(chunks.filter(|chunk| chunk.bytes() == CHUNK_BYTES));
    }
}

#[cfg(all(test, loom))]
mod loom_models;
