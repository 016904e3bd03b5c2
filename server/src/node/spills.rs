//! The folder for the sorted runs and waiting rows of a node's jobs, which is removed with the node. The
//! folder of a killed node is removed when the next node makes one in the same parent.

use std::path::{Path, PathBuf};

use ebb_jobs::{JobError, ScratchDir};

/// The folder for temporary files of jobs: sorted runs, and rows that wait for the commit. It is
/// removed when this is dropped. It lies in the database's directory, in the directory of the
/// options, or in the system's folder for temporary files.
pub(super) struct Spills {
    // Dropped first: the parent is removed only if it is empty.
    scratch: Option<ScratchDir>,
    parent: PathBuf,
    is_parent_ours: bool,
}

impl Spills {
    /// Creates a folder in `parent`, which is created if absent. If `is_parent_ours`, the drop removes
    /// `parent` too, if it is empty then.
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
