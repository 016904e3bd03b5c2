//! Inputs of jobs.
//!
//! ```text
//!   a table at a snapshot ─> SnapshotInput ┐
//!     one that CQL made   ─> CqlInput      │
//!   text, CSV, JSON lines ─> FilesInput    ├─> splits of even bytes ─> map tasks
//!   a seed                ─> Generator     ┘
//!   two of these          ─> Union
//! ```
//!
//! Every split begins and ends at a border of a record, so no byte is read for two splits.
//!
//! | file | content |
//! | --- | --- |
//! | `snapshot` | a table, or a range of its keys, as it was at a snapshot |
//! | `cql` | the rows of a table that CQL made, at a snapshot, as text |
//! | `cells` | rows of several tables as cells, for a publication |
//! | `files` | files of text, CSV or JSON lines, by the reader of `ebb_text` |
//! | `generator` | records from a seed |
//! | `lenient_csv` | CSV values of a table whose quotes may be malformed |
//! | `sample` | the number of records and places in a sample of a split |
//! | `task_pace` | checkpoints of a task among keys without rows |
//! | `union` | two inputs as one, each record marked with its side |

#[cfg(feature = "publish")]
mod cells;
mod cql;
mod files;
mod generator;
mod lenient_csv;
mod sample;
mod snapshot;
mod task_pace;
mod union;

#[cfg(feature = "publish")]
pub(crate) use cells::{
    Cells, CellsInput, Change, RewrittenRow, RowKey, cell_columns, cells_of, read_time_s,
};
pub use cql::{CqlInput, CqlText};
pub use files::{FileKind, FilesInput};
pub use generator::Generator;
pub use lenient_csv::LenientCsvInput;
pub use snapshot::SnapshotInput;
#[cfg(feature = "publish")]
pub(crate) use task_pace::TaskPace;
pub use union::{Side, Union};

/// The least target size of a split, in bytes of keys and values, or of files. Reading this many
/// bytes costs about as much as starting a task. The limit does not apply to tables whose splits
/// are cut by the index of their files: see [`SnapshotInput`].
pub const SPLIT_BYTES_MIN: u64 = 64 << 10;
