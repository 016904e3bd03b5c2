//! The memtable: the newest writes of one table, sorted, in memory.
//!
//! ```text
//!   Memtable ── SkipList ── Arena ── Chunk      versions by (key, number)
//!       │          │          └───── ChunkPool  memory for the next one
//!       │          └─────── Node                where the parts of a version lie
//!       └────── DeletedRanges ── TombstoneIndex   range tombstones, replaced as a whole
//! ```
//!
//! A concurrent skip list keyed by (key, sequence number), never by key: an
//! insert must not replace an entry that a reader may be looking for.

mod arena;
mod chunk;
mod deleted_ranges;
mod node;
mod pool;
mod skiplist;
mod table;
mod tombstone_index;

pub(crate) use deleted_ranges::DeletedRanges;
pub(crate) use pool::ChunkPool;
pub(crate) use skiplist::Entry;
pub(crate) use table::{Memtable, MemtableCursor, version_of};

#[cfg(all(test, not(loom)))]
mod tests;
