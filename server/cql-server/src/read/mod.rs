//! From a plan to rows.
//!
//! ```text
//! select    one SELECT: source, walk, sink, paging state
//!   walk      partitions and rows in their order, headers applied, predicates asked
//!     by_index  the same, by the entries of an index
//!     source    a table of the store at one instant, or computed rows
//!     fetch     the columns that are looked at, out of key, header and row
//!     filter    what ALLOW FILTERING allows to ask
//!     scanned   how many rows and deletions it came upon
//!   sink      rows to cells of the result: plain, grouped, sorted
//!     value     what a selector computes of a row
//! ```
//!
//! A read sees one instant: headers and rows come from one view.

mod by_index;
mod fetch;
mod filter;
mod scanned;
mod select;
mod sink;
mod source;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub use self::by_index::Stale;
pub(crate) use self::fetch::{Fetch, Partition, Row as FoundRow, Seen};
pub(crate) use self::filter::contains;
pub use self::select::{Bounds, Limits, Read, Select};
pub use self::source::{Source, computed_rows};
pub(crate) use self::value::{element, serialize};
