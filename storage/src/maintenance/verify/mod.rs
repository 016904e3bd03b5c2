//! Verify: whether the files of a database say what they must.
//!
//! ```text
//!   manifest ─► runs ─► SSTables      each by itself, and as the run has it
//!       └─────► bookmarks
//!       └─────► WAL segments          records, numbers, tables
//! ```
//!
//! It reads and never writes, and goes on behind what it finds. Without a
//! manifest that reads, each file is checked by itself.

mod check;
mod contradictions;
mod log_check;
mod report;

pub use check::verify;
pub(crate) use check::{verify_log, verify_state};
pub(crate) use log_check::table_of;
pub(crate) use report::finding;
pub use report::{Finding, VerifyReport};
