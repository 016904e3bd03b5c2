//! From a plan to rows.
//!
//! ```text
//! select    one SELECT: source, walk, page, paging state
//!   walk        rows in their order: takes them from scans, filters them, gives them to the page
//!     by_index    the same, by the entries of an index
//!     computed    rows of virtual tables, as if they were stored
//!     filter      what ALLOW FILTERING allows to ask
//!     scan_counts how many rows and deletions it came upon
//!   page        rows to cells of the result: plain, grouped, sorted
//!     value       what a selector computes of a row
//! ```
//!
//! A read sees one instant: headers and rows come from one view. What of them is visible is decided in
//! [`ebb_tables::read`], which also decodes the columns that a statement looks at.

mod by_index;
mod computed;
mod filter;
mod page;
mod scan_counts;
mod select;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub(crate) use self::computed::computed_rows;
pub(crate) use self::filter::contains;
pub use self::page::Limits;
pub(crate) use self::select::{Bounds, Select};
pub(crate) use self::value::{element, serialize};
