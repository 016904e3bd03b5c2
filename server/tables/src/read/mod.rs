//! Reads of rows: the content that is visible to a reader at one time, from the bytes that a table stores.
//!
//! ```text
//!   source        keys and operands of a table at one instant, or of computed rows
//!     │  entries          the search for the next entry, and the pace of the caller among passed keys
//!     │  ├─► scan             the partitions in a range of keys, with their headers and stored rows
//!     │  ├─► partition_scan   the header of a known partition, and the stored rows of a selection
//!     │  └─► row_reader       the header and one row, by their keys
//!     v       v
//!   partition     a header over static columns and rows: every rule of visibility
//!     ├─► reads before writes, checks of job outputs
//!     ├─► columns       the columns that a reader requests ─► SELECT, IF, job inputs
//!     └─► live_values   the entries that an index has for a row
//!   error         stored bytes that cannot be read, by table and key
//! ```
//!
//! The purge in merges ([`CqlRow`](crate::CqlRow)) must match these rules: it drops only content that no
//! reader can see, by the same functions of `ebb-model`.
//!
//! # The purge race
//!
//! **A header is never newer than the rows that it is combined with.** A merge may purge a deletion from a
//! header together with the rows that it hides, also while a reader is active: an iterator that was opened
//! before returns the old rows, and a later look-up of the header finds the new one, which hides nothing.
//! So deleted rows would reappear. Every reader does one of three things:
//!
//! | method | readers |
//! | --- | --- |
//! | it reads the header before it opens the iterator, or reads the row after the header or with it | [`RowScan`] for the partition in which its range begins (that of a split, or a step of an index build), [`PartitionScan`] and [`RowReader::read_row`] for SELECT of known partitions and the partition in which a page begins, IF, reads before writes; publications of changed rows |
//! | it takes the header from the same iterator as the rows | [`RowScan`] for all other partitions: SELECT over ranges, index builds, job inputs and outputs |
//! | it reads both again, the header first | reads by an index, removal of stale index entries, samples of job inputs |
//!
//! Tests with a merge in between: `read/tests/merges.rs` of ebb-cql-server for the first two ways,
//! `publish/tests/changes.rs` of ebb-jobs for the first, `inputs/cql/tests.rs` there for the third.

mod columns;
mod entries;
mod error;
mod live_values;
mod partition;
mod partition_scan;
mod row_reader;
mod rows;
mod scan;
mod source;
mod stored_row;
#[cfg(test)]
mod tests;

pub use self::columns::{ProjectedPartition, ProjectedRow, Projection};
pub use self::entries::{Ended, EntryStep, PASSED_MAX, Pace, SourceEntries, Unpaced, ValueWork};
pub use self::error::{Damage, DamageReason, TableError};
pub use self::live_values::LiveValues;
pub use self::partition::{Partition, read_key};
pub use self::partition_scan::PartitionScan;
pub use self::row_reader::RowReader;
pub use self::rows::Rows;
pub use self::scan::{PartitionStart, PartitionStep, RowScan};
pub use self::source::Source;
pub use self::stored_row::{RowStep, StoredRow};
