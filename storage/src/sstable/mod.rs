//! SSTables: immutable sorted files of versions. Flushes and compactions write them, and every read
//! that finds too little in the memtables reads them.
//!
//! ```text
//!   SsTableWriter ── BlockBuilder ── compression ──► file
//!        │   └────── PartitionBuilder, TopLevelBuilder, Properties, Footer
//!        ▼
//!   SsTable ── TopLevel ── Partition: Filter, Index ── BlockCache ── Block   one lookup
//!        └──── SsTableCursor ── ReadAhead, BlockCursor                      a scan
//! ```
//!
//! Invariants: a table's file never changes once [`SsTableWriter::finish`] returned; every
//! byte of it lies under a checksum; no bytes, however damaged, make a reader panic, loop or
//! allocate without bound. The bytes are drawn in the book, Formats: SSTable.

mod block;
mod block_builder;
mod block_cursor;
mod bounds;
mod cache;
mod compression;
mod damage;
mod file_id;
mod filter;
mod footer;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod handle;
mod index;
mod index_block;
mod key_sketch;
mod options;
mod partition;
mod partition_builder;
mod parts;
mod pieces;
mod properties;
mod read_ahead;
mod read_at;
mod reader;
mod salvage;
mod stored;
mod table_cursor;
#[cfg(test)]
mod tests;
mod tombstone_block;
mod top_level;
mod verify;
mod writer;

pub(crate) use cache::BlockCache;
pub use compression::Compression;
pub(crate) use file_id::{FileId, id_of_file};
pub(crate) use filter::key_hash;
pub use key_sketch::KeySketch;
pub use options::SsTableOptions;
pub(crate) use parts::NO_NUMBER;
pub(crate) use properties::{Origin, Properties};
pub(crate) use reader::{ReadCounters, SsTable};
pub(crate) use salvage::{KeyVersion, LostBlock, Salvage};
pub(crate) use table_cursor::SsTableCursor;
pub(crate) use writer::SsTableWriter;
