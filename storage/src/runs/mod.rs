//! Runs: what a table has on disk.
//!
//! ```text
//!   Run ── RunFile ── SsTable      reading: get, RunCursor
//!    │        └── its file goes with it once it is obsolete
//!   RunMeta                        what manifest and WAL say of it
//!
//!   RunBuilder ── RunStore         writing: files with numbers of their own
//! ```
//!
//! Invariant: a run never changes, and its files stay while there is a reference to it.

mod builder;
mod cursor;
mod file;
mod file_meta;
mod gap;
mod meta;
mod run;
mod sought;
mod store;

pub(crate) use builder::{RunBuilder, plain_bytes};
pub(crate) use cursor::RunCursor;
pub(crate) use file::RunFile;
pub(crate) use file_meta::{FileMeta, Quarantine};
pub(crate) use gap::Gap;
pub(crate) use meta::{KeptFor, RunMeta};
pub(crate) use run::Run;
pub(crate) use sought::Sought;
pub(crate) use store::{FileNumbers, RunStore};
