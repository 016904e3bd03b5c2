//! Where the sorted runs and waiting rows of a node's jobs are: a folder of its own, which
//! goes with the node. What a killed one left goes when the next is made beside it.

use std::path::{Path, PathBuf};

use ebb_jobs::{JobError, ScratchDir};

/// A folder in the database's own, in one that was named, or in the system's.
pub(super) struct Spills {
    // Dropped before the parent is looked at.
    scratch: Option<ScratchDir>,
    parent: PathBuf,
    is_parent_ours: bool,
}

impl Spills {
    /// A new one in `parent`, made when absent. One that `is_parent_ours` goes too
    /// when nothing is left in it.
    pub(super) fn create_in(parent: PathBuf, is_parent_ours: bool) -> Result<Self, JobError> {
        let made = ScratchDir::create_with_parent(&parent);
        let scratch = made.map_err(JobError::folder(&parent))?;
        Ok(Self {
            scratch: Some(scratch),
            parent,
            is_parent_ours,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.scratch.as_ref().map_or(&self.parent, ScratchDir::path)
    }
}

impl Drop for Spills {
    fn drop(&mut self) {
        self.scratch = None;
        if self.is_parent_ours {
            let _ = std::fs::remove_dir(&self.parent);
        }
    }
}
