//! The place for files of a job: a folder, and the disk space that they may take.

use std::path::{Path, PathBuf};

use ebb_scheduler::runtime::{SpillGrant, SpillSpace};
use ebb_storage::Db;

/// A folder for files of a job, such as the rows of an output before the commit, and the disk space
/// that the files may take. A path alone stands for its folder with the default reserve of disk
/// space.
#[derive(Debug, Clone)]
pub struct SpillPlace {
    directory: PathBuf,
    space: SpillSpace,
}

impl SpillPlace {
    /// Creates a place in `directory`, which is created with the first file when absent. Files take
    /// their bytes from `space`.
    pub fn new(directory: impl Into<PathBuf>, space: SpillSpace) -> Self {
        Self {
            directory: directory.into(),
            space,
        }
    }

    /// Returns the folder.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the disk space that files may take.
    pub fn space(&self) -> &SpillSpace {
        &self.space
    }

    /// Returns an empty grant of disk space. A writer enlarges it before it writes, which fails
    /// before the disk would be full.
    pub(super) fn grant(&self) -> SpillGrant {
        self.space.grant()
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for SpillPlace {
    fn from(directory: &P) -> Self {
        Self::new(directory.as_ref(), SpillSpace::default())
    }
}

/// Returns the free disk space that jobs and loads leave to `db`, in bytes: twice its low-water
/// mark. So a job fails before its files make the database refuse writes.
pub fn disk_reserve_bytes(db: &Db) -> u64 {
    db.low_water_bytes().saturating_mul(2)
}
