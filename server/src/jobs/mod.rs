//! The built-in applications, and what joins jobs to the store.
//!
//! ```text
//!   SnapshotInput ─> wordcount | grep ─> TextOutput (a file) | TableOutput
//! ```
//!
//! A job reads a table as it was when a snapshot was created, so it counts the
//! same rows whatever is written meanwhile, and leaves the block cache to the
//! load beside it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `input` | a snapshot of a table as splits |
//! | `output` | a job's rows into a table, all at once |
//! | `staging` | those rows on their way, sorted, in a file without a name |
//! | `wordcount`, `grep` | one application each |

pub mod grep;
mod input;
mod output;
mod staging;
pub mod wordcount;

pub use input::{SPLIT_BYTES_MIN, SnapshotInput};
pub use output::TableOutput;

/// What a listing says about a built-in application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application {
    /// Its name, as in `ebb run NAME`.
    pub name: &'static str,
    /// One sentence on what it does.
    pub summary: &'static str,
}

/// Every built-in application, by name.
pub const APPLICATIONS: [Application; 2] = [grep::APPLICATION, wordcount::APPLICATION];

/// Their names, ascending.
pub fn names() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().map(|application| application.name)
}
