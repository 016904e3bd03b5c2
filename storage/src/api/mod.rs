//! The handles of the public API.
//!
//! ```text
//!   Db ── Keyspace ── Table           writes: WriteBatch, Transaction
//!    │        └────── Snapshot        reads: View, Range; TableReader for all readers
//!    └─ SortedWriter, PinnedTable and DetachedTable: files written or read
//!       beside the database
//! ```
//!
//! Everything here is a thin handle on the engine in [`crate::db`]. The modules below do not depend
//! on this one.

mod changed_keys;
mod db;
mod dead_keys;
mod detached;
mod keyspace;
mod range;
mod snapshot;
mod snapshot_info;
mod sorted_writer;
mod table;
mod table_reader;
mod transaction;
mod write_batch;

pub use changed_keys::{ChangedKeys, Changes, UnknownChanges};
pub use db::{Db, MergePause};
pub use detached::{DetachedOptions, DetachedTable, PinnedTable};
pub use keyspace::Keyspace;
pub use range::{Cache, Entry, Range, Search};
pub use snapshot::{Snapshot, SnapshotTable, View};
pub use snapshot_info::{SnapshotInfo, SnapshotScope};
pub use sorted_writer::{SortedWriter, SortedWriterOptions};
pub use table::{Table, Value};
pub use table_reader::{Entries, TableReader};
pub use transaction::{Transaction, TransactionRange};
pub use write_batch::WriteBatch;
