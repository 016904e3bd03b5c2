//! Text files as rows: one row per line.
//!
//! ```text
//!   walk(paths) ─> Found { files, skipped } ─> load(db, table, ..) ─> LoadReport
//!                            │                   │
//!                            └─> rows(file) <────┘
//!                                key "docs/wal.md:000000000012", value: the line
//! ```
//!
//! A file is text when all of it is UTF-8 without NUL bytes. Anything else is
//! skipped whole and said, so that no file is loaded in part.

mod load;
mod rows;
mod walk;
mod whole;

pub use load::{LoadOptions, LoadProgress, LoadReport, load};
pub use rows::{LINE_BYTES_MAX, Row, Rows, rows};
pub use walk::{Found, SkipReason, Skipped, TextFile, walk};
pub use whole::read_whole;
