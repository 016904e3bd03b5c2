//! The resources of a task.

use super::spec::JobSpec;
use crate::runtime::error::TaskError;
use crate::runtime::owner_only;
use crate::runtime::spill_space::SpillSpace;
use std::path::PathBuf;
use tempfile::TempDir;

/// The description of a job, its spill directory and the limits of a task: all that a task needs of
/// its job, on a thread or in a process.
pub(in crate::runtime) struct TaskContext {
    pub spec: JobSpec,
    /// The job's spill directory, removed after its last task.
    pub directory: PathBuf,
    pub spill_space: SpillSpace,
    pub task_memory_bytes: usize,
}

impl TaskContext {
    /// Creates a directory for the intermediate files of one attempt, removed on drop.
    pub fn attempt_dir(&self, prefix: &str) -> Result<TempDir, TaskError> {
        let path = &self.directory;
        let made = owner_only::temporary_dir_in(path, prefix);
        made.map_err(TaskError::io(format!(
            "creating a spill directory in {}",
            path.display()
        )))
    }
}
