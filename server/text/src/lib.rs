//! Files into a table: lines of text, CSV records or JSON lines as rows, all of them or
//! none.
//!
//! ```text
//!   walk(paths) ─> Found { files, skipped } ─> sort(..) ─> Sorted ─> ingest(table)
//!                                                │          rows in files of the
//!                   source ─> reader ─> rows ────┤          store's form, in a scratch
//!                                                │          folder
//!                                             sorter (by key, where they are not in order)
//! ```
//!
//! The [reader] of records is also that of jobs over files, which is why both accept the same
//! files, and refuse the same ones with the same words.
//!
//! What always holds:
//!
//! - Nothing is in the table before [`Sorted::ingest`], and all of it after: one commit.
//! - A load that ends before that, unless its process is killed, leaves no file in the
//!   scratch folder.
//! - A file is loaded whole or not at all. One that cannot be ends the load, or is left
//!   out and said ([`LoadOptions::skip_bad`]).
//! - Memory is bounded, however many rows there are and in whatever order.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

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
