//! Writes as merge operands, their reconciliation, and rows as of a time.
//!
//! ```text
//! builder, header     a write           →  an operand: bytes in the book, Formats: CQL rows
//! parts, list_place   a value           →  the elements for its cells, if it has several
//! merge, header       two operands      →  one, by Cassandra's rules of reconciliation
//! view, collection    operands, a time  →  the live content for a reader
//! purge, stats        an operand        →  the garbage in it; the statistics that runs keep
//! live, garbage, decode, ranges, cell      the basis of the modules above
//! ```
//!
//! Rows of tables are written only as operands, so their order of commit is irrelevant: the
//! client's timestamps decide. Invariants:
//!
//! - Merging is commutative, associative and idempotent, and uses neither a clock nor a schema.
//!   Merged operands are canonical: the same writes result in the same bytes, in whatever order and
//!   grouping they were merged.
//! - Only a view evaluates times to live, by the read time that it is given.
//! - Operands are untrusted: bad bytes result in a [`RowError`], never in a panic, and allocations
//!   are bounded by a multiple of the input's size.

mod builder;
mod bytes;
mod cell;
mod collection;
mod decided;
mod decode;
mod error;
mod garbage;
mod header;
mod list_place;
mod live;
mod merge;
mod parts;
mod purge;
mod ranges;
mod stats;
mod view;

#[cfg(test)]
mod tests;

pub use builder::RowBuilder;
pub use cell::{Cell, Deletion, Element, Expiry, Lifetime, Marker, Original};
pub use collection::{LiveCollection, LiveElement, LiveElements};
pub use decode::{CollectionRef, Column, Columns, Elements, RowRef};
pub use error::RowError;
pub use garbage::Garbage;
pub use header::{Header, HeaderBuilder, merge_headers};
pub use list_place::{ListEnd, list_place};
pub use live::LiveCell;
pub use merge::merge_rows;
pub use parts::{Part, Parts, keyed_part, parts, try_parts};
pub use purge::{Purged, purge_header, purge_row};
pub use ranges::RangeDeletion;
pub use stats::{Stats, header_stats, row_stats};
pub use view::{DroppedCells, LiveColumn, LiveColumns, RowView};
