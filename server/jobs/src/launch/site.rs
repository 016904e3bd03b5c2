//! The node on which a job is launched, as far as the job needs it.

use std::path::PathBuf;

use ebb_storage::Db;
use ebb_tables::LazyCatalog;

/// The database and the resources of the node that launches a job.
#[derive(Debug, Clone)]
pub struct Site {
    /// The database of the node; `None` if the job runs without one, from files to files.
    pub db: Option<Db>,
    /// The schemas of CQL tables.
    pub catalog: LazyCatalog,
    /// The folder for sorted runs of tasks, and for rows of the output before their commit.
    pub spill_dir: PathBuf,
    /// The number of cores of the node.
    pub cores: u32,
    /// The memory for the records of one task, in bytes.
    pub task_memory_bytes: usize,
}
