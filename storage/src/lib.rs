//! An embeddable LSM key-value store with named snapshots that survive a
//! restart and are read in place.
//!
//! ```text
//! Db ── Keyspace ── Table            handles a user holds; Transaction, View, Snapshot
//!         │
//!       commit                       sequence numbers, group commit, visibility, conflicts
//!         │
//!       wal    memtable              where a write goes
//!         │        │
//!       manifest  version            the ordered run list; bookmarks; recovery
//!                  │
//!       sstable                      block, filter, index, cache of one file
//!       compaction flush             (background) bounded, stripe by stripe
//!       backup verify repair         care of a database, open or closed
//!       vfs                          the only door to the disk
//! ```
//!
//! A snapshot is a *bookmark in the sequence of commits*: creating one is a
//! commit that writes a few bytes. Flush and compaction keep, of each key, one
//! version for each stripe between neighbouring bookmarks, so a snapshot's
//! content never changes, whatever is written after it.
//!
//! What the crate never does: it never calls the file system but through
//! [`vfs`], never asks for the time but through [`Clock`], and knows nothing of
//! jobs or schedulers.

// Allowed in leaf modules that the book names (Architecture).
#![deny(unsafe_code)]

mod care;
mod clock;
mod commit;
mod compaction;
mod db;
mod detached;
mod error;
mod files;
mod flush;
#[cfg(any(all(test, not(loom)), feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod keyspace;
#[cfg(all(test, loom))]
mod loom_models;
mod manifest;
mod memtable;
mod meter;
#[cfg(feature = "mutations")]
pub mod mutation;
#[cfg(not(feature = "mutations"))]
mod mutation;
mod options;
mod read;
mod retention;
mod snapshot;
mod sorted_writer;
mod sstable;
mod stats;
mod sync;
mod table;
mod transaction;
mod varint;
mod version;
pub mod vfs;
mod wal;

pub use care::backup::BackupInfo;
pub use care::repair::{Lost, RepairReport, RepairedTable, repair};
pub use care::verify::{Finding, VerifyProgress, VerifyReport, verify};
pub use clock::{Clock, ManualClock, SystemClock};
pub use commit::{MAX_KEY_BYTES, MAX_VALUE_BYTES, WriteBatch};
pub use compaction::{
    Bounding, CompactionPicker, Pick, Reason, RunShape, TableShape, TieredPicker,
};
pub use db::Db;
pub use detached::{DetachedOptions, DetachedTable, PinnedTable};
pub use error::{Error, ErrorKind, Result};
pub use key::SeqNo;
pub use keyspace::{Keyspace, SnapshotInfo, SnapshotScope};
pub use meter::{Meter, Metered, Requests};
pub use options::{
    CompactionOptions, Durability, Maintenance, Options, SnapshotOptions, TableOptions,
    WriteOptions,
};
pub use read::merge_operator::{MergeOperator, MergeOperators};
pub use read::range::{Entry, Range};
pub use snapshot::{Snapshot, SnapshotTable, View};
pub use sorted_writer::{SortedWriter, SortedWriterOptions};
pub use sstable::{Compression, KeySketch, SsTableOptions};
pub use stats::{RunStats, Stats, TableStats};
pub use table::{IngestInfo, Table, Value};
pub use transaction::{Transaction, TransactionOptions, TransactionRange};

/// The examples of the book's guide, compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/guide/store.md")]
struct Guide;
