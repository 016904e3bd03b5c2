//! Where a job's sorted runs and waiting rows are: a folder of its own, which goes
//! with the process. What a killed one left goes when the next is made beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_server::jobs::ScratchDir;

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
    pub(super) fn create_in(parent: PathBuf, is_parent_ours: bool) -> Result<Self> {
        let made = std::fs::create_dir_all(&parent).and_then(|()| ScratchDir::create_in(&parent));
        let scratch = made
            .with_context(|| format!("cannot make a folder for spills in {}", parent.display()))?;
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
