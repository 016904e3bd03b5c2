//! A write as a merge operand, reconciliation, and a row as of a time.
//!
//! ```text
//! builder, header     a write           →  an operand: bytes in the book, Formats: CQL rows
//! parts, list_place   a value           →  the elements of several cells that it is
//! merge, header       two operands      →  one, by Cassandra's rules of reconciliation
//! view, collection    operands, a time  →  what a reader sees
//! purge, stats        an operand        →  what a compaction may drop, what a run says of itself
//! live, garbage, decode, ranges, cell      what they stand on
//! ```
//!
//! A table's rows are only ever written as operands, so their order of commit says
//! nothing: the client's timestamps decide. What always holds:
//!
//! - Merging is commutative, associative and idempotent, looks at no clock and needs no
//!   schema. Merged operands are canonical: the same writes give the same bytes, in
//!   whatever order and grouping they were merged.
//! - Only a view judges time to live, by the time it is given.
//! - Operands are untrusted: bad bytes are a [`RowError`], never a panic, and nothing is
//!   allocated beyond a multiple of what was given.

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
