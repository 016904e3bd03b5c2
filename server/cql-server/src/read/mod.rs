//! From a plan to rows.
//!
//! ```text
//! select    one SELECT: source, walk, sink, paging state
//!   walk      partitions and rows in their order, headers applied, predicates asked
//!     by_index  the same, by the entries of an index
//!     computed  rows of virtual tables, as if they were stored
//!     filter    what ALLOW FILTERING allows to ask
//!     scanned   how many rows and deletions it came upon
//!   sink      rows to cells of the result: plain, grouped, sorted
//!     value     what a selector computes of a row
//! ```
//!
//! A read sees one instant: headers and rows come from one view. What of them is visible is decided in
//! [`ebb_tables::read`], which also decodes the columns that a statement looks at.

mod by_index;
mod computed;
mod filter;
mod scanned;
mod select;
mod sink;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub use self::by_index::Stale;
pub use self::computed::computed_rows;
pub(crate) use self::filter::contains;
pub use self::select::{Bounds, Limits, Read, Select};
pub(crate) use self::value::{element, serialize};
