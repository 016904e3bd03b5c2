//! The built-in applications, and the inputs and outputs that connect jobs to the store and
//! to files.
//!
//! ```text
//!   inputs ─> an application: mapper, combiner, reducer ─> outputs
//!                   │ columns that it looks at                │ columns of its rows
//!                   └───────────────> records <───────────────┘
//! ```
//!
//! A job reads a table as it was when a snapshot was created, so its result does not depend on
//! later writes. It leaves the block cache to the transactional load.
//!
//! | folder or file | content |
//! | --- | --- |
//! | `inputs` | snapshots of tables, files, records from a seed, as splits |
//! | `outputs` | rows into a table, files or the terminal, all at once |
//! | `records` | formats of rows: columns, CSV, JSON, numbers |
//! | `history` | the history of jobs, in the database |
//! | `advice` | the probability that a job meets its goal, from its last execution |
//! | `chain` | jobs that each read the output of the one before |
//! | `processes` | tasks in processes of their own |
//! | `application` | the interface of an application; `request::APPLICATIONS` lists all |
//! | `outside` | the checks of paths that outputs have in the directory of the database |
//! | `seen` | the columns that occurred in any record |
//! | `options` | bounds and defaults of options that several applications have |
//! | `publish` | snapshots as Iceberg tables, with the feature `publish` (on by default in the binary) |
//! | `aggregate`, `combine`, `grep` and so on | one application each: its options, its job |

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

pub mod advice;
pub mod aggregate;
mod application;
pub mod chain;
pub mod combine;
mod error;
mod failure;
pub mod grep;
#[expect(clippy::disallowed_methods, reason = "notes when jobs ran")]
pub mod history;
pub mod index;
mod inputs;
pub mod join;
pub mod launch;
mod options;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to files that users name"
)]
mod outputs;
mod outside;
pub mod pagerank;
pub mod pi;
#[expect(
    clippy::disallowed_methods,
    reason = "looks up which files a process has open"
)]
mod processes;
mod publish;
pub mod records;
pub mod request;
pub mod restart;
mod seen;
pub mod select;
pub mod simulate;
pub mod sort;
#[cfg(test)]
mod testing;
pub mod validate;
pub mod wordcount;

pub use chain::{Chain, Outline, Stage, Work};
pub use error::JobError;
pub use failure::Failure;
pub use inputs::{
    CqlInput, CqlText, FileKind, FilesInput, Generator, LenientCsvInput, SPLIT_BYTES_MIN, Side,
    SnapshotInput, Union,
};
pub use outputs::{
    CqlLoad, CqlOutput, FilesOutput, FilesTarget, LimitedOutput, LoadedRows, Relay, RowWriter,
    ScratchDir, SpillPlace, TableOutput, disk_reserve_bytes, has_rows_written_at,
};
pub use outside::{SPILLS, check_outside};
pub use publish::pins;
pub use records::RowFormat;

/// Returns the names of the applications, ascending.
pub fn names() -> impl Iterator<Item = &'static str> {
    request::APPLICATIONS.iter().map(|entry| entry.name)
}
