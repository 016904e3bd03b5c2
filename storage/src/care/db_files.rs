//! The files of a database that is not open.

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{self, FileKind, FileNumber};
use crate::vfs::{LockGuard, Vfs};

/// The files of a database, by their numbers, ascending.
#[derive(Debug, Default)]
pub(crate) struct DbFiles {
    pub(crate) sstables: Vec<FileNumber>,
    pub(crate) segments: Vec<FileNumber>,
    pub(crate) manifests: Vec<FileNumber>,
}

impl DbFiles {
    /// Those of a directory that nobody else has open, and will not before the
    /// lock is freed. There is no lock where the directory cannot be written to,
    /// and so by nobody else either.
    ///
    /// # Errors
    /// [`Error::NoDatabase`] when there is nothing of a database;
    /// [`Error::Locked`], [`Error::Io`].
    pub(crate) fn lock(vfs: &dyn Vfs, dir: &Path) -> Result<(Self, Option<Box<dyn LockGuard>>)> {
        // No lock file is made where there is no database.
        let files = Self::list(vfs, dir)?;
        Ok((files, lock_to_read(vfs, dir)?))
    }

    fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Self> {
        let none = || Error::NoDatabase {
            path: dir.to_path_buf(),
        };
        if !vfs.exists(dir).map_err(Error::io("look for", dir))? {
            return Err(none());
        }
        let mut files = Self::default();
        for path in vfs.list(dir).map_err(Error::io("list", dir))? {
            match FileKind::of(&path) {
                Some(FileKind::SsTable(number)) => files.sstables.push(number),
                Some(FileKind::Wal(number)) => files.segments.push(number),
                Some(FileKind::Manifest(number)) => files.manifests.push(number),
                Some(FileKind::Temporary) | None => {}
            }
        }
        for list in [
            &mut files.sstables,
            &mut files.segments,
            &mut files.manifests,
        ] {
            list.sort_unstable();
        }
        let current = files::current(dir);
        let is_empty =
            files.sstables.is_empty() && files.segments.is_empty() && files.manifests.is_empty();
        if is_empty
            && !vfs
                .exists(&current)
                .map_err(Error::io("look for", &current))?
        {
            return Err(none());
        }
        Ok(files)
    }
}

fn lock_to_read(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    match files::take_lock(vfs, dir) {
        Ok(lock) => Ok(Some(lock)),
        Err(Error::Io { source, .. })
            if matches!(
                source.kind(),
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::vfs::MemVfs;

    #[test]
    fn a_directory_without_a_database_gets_no_lock_file() {
        let mem = MemVfs::new();
        let dir = Path::new("/db");
        mem.create_dir_all(dir).unwrap();
        let none = DbFiles::lock(&mem, dir);
        assert!(matches!(none, Err(Error::NoDatabase { .. })));
        assert!(mem.list(dir).unwrap().is_empty());
    }
}
