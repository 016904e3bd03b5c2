//! The execution of a SELECT plan.
//!
//! ```text
//! select    one SELECT: source, walk, page, paging state
//!   walk        rows in order: from scans, through the filter, to the page
//!     by_index    the same, by the entries of an index
//!     computed    rows of virtual tables, as if they were stored
//!     filter      the predicates of ALLOW FILTERING
//!     scan_counts counts of rows and tombstones
//!   limits      limits on rows, bytes and time
//!   page        rows to cells of the result: plain, grouped, sorted
//!     value       the value of a selector for a row
//! ```
//!
//! A read uses one view, so that headers and rows are of one instant. [`ebb_tables::read`] decides
//! what is visible, and decodes the columns that the statement reads.

mod by_index;
mod computed;
mod filter;
mod limits;
mod page;
mod scan_counts;
mod select;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub(crate) use self::computed::computed_rows;
pub(crate) use self::filter::contains;
pub use self::limits::Limits;
pub(crate) use self::select::{Bounds, Select};
pub(crate) use self::value::{element, serialize};
