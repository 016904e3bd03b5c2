//! SSTables: immutable sorted files of versions, what flush and compaction
//! write and every read below the memtables goes to.
//!
//! ```text
//!   SsTableWriter ── BlockBuilder ── compression ──► file
//!        │   └────── FilterBuilder, IndexBuilder, Properties, Footer
//!        ▼
//!   SsTable ── Filter ── Index ── BlockCache ── Block      one lookup
//!        └──── SsTableCursor ── ReadAhead, BlockCursor    a scan
//! ```
//!
//! What always holds: a table's file never changes once
//! [`SsTableWriter::finish`] returned; every byte of it lies under a checksum;
//! no bytes, however damaged, make a reader panic, loop or allocate without
//! bound. The bytes are drawn in the book, Formats: SSTable.

mod block;
mod block_builder;
mod block_cursor;
mod cache;
mod compression;
mod damage;
mod filter;
mod footer;
#[cfg(any(all(test, not(loom)), feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod handle;
mod index;
mod key_sketch;
mod options;
mod properties;
mod read_ahead;
mod read_at;
mod reader;
mod salvage;
mod table_cursor;
#[cfg(test)]
mod tests;
mod tombstone_block;
mod verify;
mod writer;

pub(crate) use cache::BlockCache;
pub use compression::Compression;
pub(crate) use filter::key_hash;
pub use key_sketch::KeySketch;
pub use options::SsTableOptions;
pub(crate) use properties::{Origin, Properties};
pub(crate) use reader::{NO_NUMBER, ReadCounters, SsTable};
pub(crate) use salvage::{KeyVersion, Salvage};
pub(crate) use table_cursor::SsTableCursor;
pub(crate) use writer::SsTableWriter;
