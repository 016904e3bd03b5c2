//! An embeddable LSM key-value store with named snapshots that survive a
//! restart and are read in place.
//!
//! ```text
//! api            Db Keyspace Table Snapshot View Transaction: what a user holds
//! maintenance    backup verify repair: care of a database, open or closed
//! db             open, close, write, flush, merge, snapshots
//! │
//! ├ commit wal           sequence numbers, group commit, conflicts; where a write goes
//! ├ manifest snapshots   the durable state; named snapshots and views
//! ├ version memtable     what a table consists of at one moment
//! ├ compaction           what to merge and what to keep, as decisions
//! ├ runs sstable         immutable sorted files
//! ├ read                 one key's versions to a value, many sources as one
//! │
//! key            numbers, ids, ranges, versions: vocabulary without I/O
//! disk           the disk of this machine, for both interfaces
//! simulation     a disk in memory that loses power when a test calls for it
//! table_store    the interface for immutable tables
//! log_store      the interface for growing files: log, manifest, lock
//! file_system    files and directories, as both interfaces need them
//! ```
//!
//! Arrows of use point down only.
//!
//! A snapshot is a *bookmark in the sequence of commits*: creating one is a
//! commit that writes a few bytes. Flush and compaction keep, of each key, one
//! version for each stripe between neighbouring bookmarks, so a snapshot's
//! content never changes, whatever is written after it.
//!
//! The crate calls the file system only through [`LogStore`] and [`TableStore`], reads the
//! time only through [`Clock`], and has no notion of jobs or schedulers.

// Allowed in leaf modules that the book names (Architecture).
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

mod api;
#[expect(clippy::disallowed_methods, reason = "the door to the time of day")]
mod clock;
mod commit;
mod compaction;
mod db;
mod disk;
mod error;
mod file_system;
mod files;
mod formats;
#[cfg(any(all(test, not(loom)), feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hex;
mod key;
mod log_store;
#[cfg(all(test, loom))]
mod loom_models;
mod maintenance;
mod manifest;
mod memtable;
#[expect(
    clippy::disallowed_methods,
    reason = "measures how long requests took; no content depends on it"
)]
mod meter;
#[cfg(feature = "mutations")]
pub mod mutation;
#[cfg(not(feature = "mutations"))]
mod mutation;
mod options;
mod random_id;
mod read;
mod runs;
pub mod simulation;
mod snapshots;
mod sstable;
mod stats;
mod sync;
mod table_store;
mod varint;
mod version;
mod wal;

pub use api::{
    Cache, ChangedKeys, Changes, Db, DetachedOptions, DetachedTable, Entries, Entry, Keyspace,
    MergePause, PinnedTable, Range, Search, Snapshot, SnapshotInfo, SnapshotScope, SnapshotTable,
    SortedWriter, SortedWriterOptions, Table, TableReader, Transaction, TransactionRange,
    UnknownChanges, Value, View, WriteBatch,
};
pub use clock::{Clock, ManualClock, SystemClock};
pub use compaction::{
    Bounding, CompactionPicker, Pick, PinnedBytes, RunShape, TableShape, TieredPicker,
};
pub use db::{
    Event, FileCheck, Health, IngestInfo, LargeGroup, NAME_BYTES_MAX, SnapshotPins, SpaceUse,
};
pub use disk::{Disk, DiskCall, LocalDisk, StuckCall};
pub use error::{Error, ErrorKind, Result};
pub use file_system::{FileSystem, ReadFile, SyncFile, WriteFile};
pub use files::is_folder_of_tables;
pub use key::{MAX_KEY_BYTES, MAX_VALUE_BYTES, RunId, SeqNo};
pub use log_store::{LockGuard, LogStore};
pub use maintenance::{
    Backup, BackupInfo, FileLoss, Finding, LossReport, Lost, MaintenanceProgress, RepairReport,
    RepairedTable, RestoreReport, RestoreStep, RestoredFile, SpaceWatch, VerifyReport, repair,
    verify,
};
pub use meter::{Meter, Metered, Requests};
pub use options::{
    CompactionOptions, Durability, HoldOptions, Maintenance, Options, SnapshotOptions,
    TableOptions, WriteOptions,
};
pub use read::{
    ExpiryBounds, FilterPrefix, FoundSoFar, Group, MergeOperator, MergeOperators, PurgeContext,
    Purged, TimestampBounds, ValueBounds,
};
pub use sstable::{Compression, KeySketch, SsTableOptions};
pub use stats::{MergeStats, QuarantinedFile, RunStats, Stats, TableStats};
pub use table_store::{Imported, LocalTables, TableFiles, TableStore};

/// The examples of the book's guide, compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/guide/store.md")]
struct Guide;
