//! Where a job is launched.

use std::path::PathBuf;

use ebb_storage::Db;
use ebb_tables::LazyCatalog;

/// What a job finds at the node that it is launched on.
#[derive(Debug, Clone)]
pub struct Site {
    /// The database, where there is one.
    pub db: Option<Db>,
    /// What CQL knows of its tables.
    pub catalog: LazyCatalog,
    /// Where sorted runs and waiting rows are.
    pub spill_dir: PathBuf,
    /// Cores of the node.
    pub cores: u32,
    /// Memory for the records of a task, in bytes.
    pub task_memory_bytes: usize,
}
