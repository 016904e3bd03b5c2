//! The way from maps to reduces: records are sorted in a buffer, spilled as sorted runs, and
//! merged.
//!
//! | file | contents |
//! | --- | --- |
//! | `sort_buffer`, `key_index` | records in memory; the table of keys of a job that combines in place |
//! | `run` | a sorted run on disk |
//! | `sorted`, `merge`, `key_prefix` | several sources as one; their order |
//! | `open_files` | the files of runs, opened as far as there are file descriptors |

pub(in crate::runtime) mod key_index;
pub(in crate::runtime) mod key_prefix;
pub(in crate::runtime) mod merge;
mod open_files;
#[expect(
    clippy::disallowed_methods,
    reason = "reads and writes sorted runs on the disk"
)]
pub(in crate::runtime) mod run;
pub(in crate::runtime) mod sort_buffer;
pub(in crate::runtime) mod sorted;
