//! A piece of memory from the system, which holds entries of one memtable, and later of another.

#![expect(unsafe_code, reason = "it takes memory from the system")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The alignment of every piece of an arena, in bytes: enough for the header of a chunk and for a node.
pub(super) const ALIGN_BYTES: usize = 8;
/// The size of the first chunk of an arena, in bytes. It is small, so that a memtable with few writes
/// takes little memory.
pub(super) const FIRST_CHUNK_BYTES: usize = 4 << 10;
/// The size of the largest chunks of an arena, in bytes. Up to this size, each chunk is twice as large as
/// the one before. A chunk for an entry that would not fit otherwise is larger.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// A piece of uninitialised memory, allocated from the global allocator.
#[derive(Debug)]
pub(super) struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk owns its memory, which belongs to no thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Allocates a chunk of at least `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        let bytes = bytes.max(FIRST_CHUNK_BYTES);
        let layout = Layout::from_size_align(bytes, ALIGN_BYTES);
        let layout = layout.expect("no entry is as large as half of the address space");
        // SAFETY: the layout has a size above 0.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout }
    }

    /// Returns the start of the chunk, aligned to [`ALIGN_BYTES`]; the pointer is valid for
    /// the whole chunk.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
