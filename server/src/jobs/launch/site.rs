//! Where a job is launched.

use std::path::{Path, PathBuf};

use ebb_storage::Db;

/// What a job finds at the node that it is launched on.
#[derive(Debug, Clone)]
pub struct Site {
    /// The database, where there is one.
    pub db: Option<Db>,
    /// Where sorted runs and waiting rows are.
    pub spill_dir: PathBuf,
    /// Cores of the node.
    pub cores: u32,
    /// Memory for the records of a task, in bytes.
    pub task_memory_bytes: usize,
}

/// `path` as it is found: below `directory` where it is relative. Where that is the
/// directory of this process it stays as it is, so that messages name it as it was asked
/// for.
pub(super) fn resolve(directory: &Path, path: &Path) -> PathBuf {
    match std::env::current_dir() {
        Ok(here) if here == directory => path.to_path_buf(),
        _ => directory.join(path),
    }
}
