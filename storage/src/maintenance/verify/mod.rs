//! Verify: checks the files of a database against each other.
//!
//! ```text
//!   manifest ─► runs ─► SSTables      each by itself, and as the run has it
//!       └─────► bookmarks
//!       └─────► WAL segments          records, numbers, tables
//! ```
//!
//! It only reads, and continues after each finding. Without a readable manifest, each file is
//! checked by itself.

mod check;
mod contradictions;
mod log_check;
mod online;
mod report;
mod segment_check;

pub use check::verify;
pub(crate) use log_check::{LogCheck, table_of};
pub(crate) use online::verify_online;
pub(crate) use report::finding;
pub use report::{Finding, VerifyReport};
pub(crate) use segment_check::SegmentCheck;
