//! The node on which a job is launched, as far as the job needs it.

use std::io;
use std::path::Path;

use ebb_storage::Db;
use ebb_tables::LazyCatalog;
use rustix::fs::{stat, statvfs};

use crate::SpillPlace;

/// The database and the resources of the node that launches a job.
#[derive(Debug, Clone)]
pub struct Site {
    /// The database of the node; `None` if the job runs without one, from files to files.
    pub db: Option<Db>,
    /// The schemas of CQL tables.
    pub catalog: LazyCatalog,
    /// The place for sorted runs of tasks, and for rows of the output before their commit.
    pub spills: SpillPlace,
    /// The number of cores of the node.
    pub cores: u32,
    /// The memory for the records of one task, in bytes.
    pub task_memory_bytes: usize,
}

impl Site {
    /// Returns the place for files of an output in `folder`, which may be absent. If these files
    /// share a file system with the database or with the spills, they leave the same reserve of
    /// disk space as spills. On another file system they may take all free space, because nothing
    /// of the database is there.
    pub(super) fn place_in(&self, folder: &Path) -> SpillPlace {
        let found = folder.ancestors().find(|folder| folder.exists());
        let found = found.unwrap_or(folder);
        let mut reserved = (self.db.iter().map(Db::dir)).chain([self.spills.directory()]);
        // In doubt the reserve stays: without it, writes of the database could fail.
        let is_reserved = reserved.any(|of| shares_file_system(found, of).unwrap_or(true));
        let space = self.spills.space().clone();
        let space = if is_reserved { space } else { space.leaving(0) };
        SpillPlace::new(folder, space)
    }
}

/// Returns whether files in the folders `a` and `b` take their space from the same file system.
fn shares_file_system(a: &Path, b: &Path) -> io::Result<bool> {
    // The subvolumes of a file system differ in their devices, but each has the size of the whole.
    // Two file systems of exactly one size count as one, which only keeps a reserve free in vain.
    Ok(stat(a)?.st_dev == stat(b)?.st_dev || blocks(a)? == blocks(b)?)
}

/// Returns the number and the size of the blocks of the file system that has `path`.
fn blocks(path: &Path) -> io::Result<(u64, u64)> {
    let found = statvfs(path)?;
    Ok((found.f_blocks, found.f_frsize))
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::SpillSpace;

    use super::*;

    #[test]
    fn files_leave_the_reserve_only_beside_the_database_or_its_spills() {
        let spills = tempfile::tempdir().unwrap();
        let space = SpillSpace::new(|_| Ok(50)).leaving(100);
        let site = Site {
            db: None,
            catalog: LazyCatalog::default(),
            spills: SpillPlace::new(spills.path(), space),
            cores: 1,
            task_memory_bytes: 1 << 20,
        };
        let takes = |folder: &Path, bytes| {
            let mut grant = site.place_in(folder).space().grant();
            grant.take(folder, bytes).is_ok()
        };
        assert!(!takes(spills.path(), 1));
        assert!(!takes(&spills.path().join("absent"), 1));
        let elsewhere = Path::new("/proc");
        assert!(takes(elsewhere, 50) && !takes(elsewhere, 51));
        assert!(!takes(Path::new("nowhere"), 1), "in doubt");
    }
}
