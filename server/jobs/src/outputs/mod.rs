//! Outputs of jobs. All rows appear once the job has succeeded, or none.
//!
//! ```text
//!            ┌─> TableOutput   staging files ─> ingest
//!   rows ────┼─> FilesOutput   parts in a scratch folder ─> a file, a folder with
//!            │                 _SUCCESS, or the terminal
//!            ├─> CqlOutput     staged by the keys of the engine ─> ingest
//!            └─> Relay         the input of the next job of a chain
//! ```
//!
//! Every attempt at a partition writes to a file of its own, so that two attempts may run at once;
//! the rows of the last one that finishes are used.
//!
//! | file | content |
//! | --- | --- |
//! | `table` | a job's rows into a table, by one commit |
//! | `cql` | a job's rows, or those of files with types, into a table of CQL, by one commit |
//! | `partitions` | finished partitions, which wait for a commit |
//! | `staging` | rows on their way to a table or to the next job, sorted, in a file |
//! | `files` | a job's rows into files |
//! | `rows` | a row as a line of text, CSV or JSON |
//! | `limit` | the first rows of a job, for any output |
//! | `scratch` | the folder that the parts of files wait in |
//! | `spill_place` | a folder for files of a job, and their disk space |
//! | `relay` | rows that a job of a chain passes to the next one |

mod cql;
mod files;
mod limit;
mod partitions;
mod relay;
mod rows;
mod scratch;
mod spill_place;
mod staging;
mod table;

pub use cql::{CqlLoad, CqlOutput, LoadedRows, has_rows_written_at};
pub use files::{FilesOutput, FilesTarget};
pub use limit::LimitedOutput;
pub use relay::Relay;
pub use rows::RowWriter;
pub use scratch::ScratchDir;
pub use spill_place::{SpillPlace, disk_reserve_bytes};
pub use table::TableOutput;
