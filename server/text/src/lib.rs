//! Loads files into a table: lines of text, CSV records or JSON lines become rows, all of them or
//! none.
//!
//! ```text
//!   walk(paths) ─> Found { files, skipped } ─> sort(..) ─> Sorted ─> ingest(table)
//!                                                │          rows in files of the
//!                   source ─> reader ─> rows ────┤          store's form, in a scratch
//!                                                │          folder
//!                                              sorter (by key, if they are not in order)
//! ```
//!
//! Jobs over files use the same [reader] of records. So both accept the same files, and reject the
//! same ones with the same messages.
//!
//! Invariants:
//!
//! - The table contains nothing before [`Sorted::ingest`], and everything after it: one commit.
//! - A load that ends earlier, unless its process is killed, leaves no file in the scratch folder.
//! - A file is loaded completely or not at all. A file that cannot be loaded ends the load, or is
//!   skipped and reported ([`LoadOptions::skip_bad`]).
//! - Memory is bounded, for any number and any order of rows.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

pub mod counts;
pub mod csv;
mod error;
mod format;
#[expect(clippy::disallowed_methods, reason = "tells how long a load took")]
mod load;
mod merge;
mod options;
mod plan;
pub mod reader;
mod rows;
mod sorter;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod source;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod user_file;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod walk;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod whole;

pub use error::LoadError;
pub use format::TextFormat;
pub use load::{LoadControl, LoadPhase, LoadProgress, LoadReport, Sorted, load, sort};
pub use options::{Duplicates, LoadOptions};
pub use reader::LINE_BYTES_MAX;
pub use user_file::{FileError, check_exists, check_readable};
pub use walk::{Found, SkipReason, Skipped, TextFile, walk};
pub use whole::read_whole;
