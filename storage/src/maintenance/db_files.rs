//! The files of a database that is not open.

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::key::FileNumber;
use crate::log_store::{self, LockGuard, LogStore};
use crate::manifest::Manifest;
use crate::table_store::TableStore;

/// The numbers of the files of a database, by kind, ascending.
#[derive(Debug, Default)]
pub(crate) struct DbFiles {
    pub(crate) sstables: Vec<FileNumber>,
    pub(crate) segments: Vec<FileNumber>,
    /// The numbers of the manifests. A number occurs once for each copy of its manifest.
    pub(crate) manifests: Vec<FileNumber>,
}

impl DbFiles {
    /// Takes a shared lock of a directory, and lists its files. Returns the list and the lock: until
    /// the lock is dropped, no writer changes the files. The lock is `None` if the directory has no
    /// lock file, and the disk cannot lock the directory itself. In this case
    /// [`Db::open_read_only`](crate::Db::open_read_only) does without a lock, too.
    ///
    /// # Errors
    /// [`Error::NoDatabase`] if the directory has no file of a database; [`Error::BeingWritten`] if
    /// the database is open for writing; [`Error::Io`].
    pub(crate) fn lock(
        log_store: &dyn LogStore,
        tables: &dyn TableStore,
        dir: &Path,
    ) -> Result<(Self, Option<Box<dyn LockGuard>>)> {
        let lock = log_store::share_lock(log_store, dir)?;
        // List only now: a writer that had the lock until a moment ago may have replaced any
        // file.
        Ok((Self::list(log_store, tables, dir)?, lock))
    }

    fn list(log_store: &dyn LogStore, tables: &dyn TableStore, dir: &Path) -> Result<Self> {
        let none = || Error::NoDatabase {
            path: dir.to_path_buf(),
        };
        if !log_store.exists(dir).map_err(Error::io("look for", dir))? {
            return Err(none());
        }
        let mut files = Self::default();
        for path in log_store.list(dir).map_err(Error::io("list", dir))? {
            match FileKind::of(&path) {
                Some(FileKind::Wal(number)) => files.segments.push(number),
                Some(FileKind::Manifest(number)) => files.manifests.push(number),
                Some(FileKind::SsTable(_) | FileKind::Temporary) | None => {}
            }
        }
        let listed = tables.list().map_err(Error::io("list", dir))?;
        files.sstables = listed.into_iter().map(FileNumber).collect();
        for list in [
            &mut files.sstables,
            &mut files.segments,
            &mut files.manifests,
        ] {
            list.sort_unstable();
        }
        let is_empty =
            files.sstables.is_empty() && files.segments.is_empty() && files.manifests.is_empty();
        if is_empty && !Manifest::exists(log_store, dir)? {
            return Err(none());
        }
        Ok(files)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::file_system::{FileSystem, ReadFile, WriteFile};
    use crate::files;
    use crate::simulation::MemDisk;
    use crate::table_store::{LocalTables, TableFiles};

    /// A disk that wraps another one. Just before the lock is taken, a writer merges two files and
    /// closes the database.
    #[derive(Debug)]
    struct Closing(MemDisk);

    impl FileSystem for Closing {
        fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
            self.0.list(dir)
        }

        fn exists(&self, path: &Path) -> io::Result<bool> {
            self.0.exists(path)
        }

        fn open_read(&self, _: &Path) -> io::Result<Arc<dyn ReadFile>> {
            unreachable!("files are listed and not read")
        }

        fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
            unreachable!()
        }

        fn truncate(&self, _: &Path, _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            unreachable!()
        }

        fn create_dir_all(&self, _: &Path) -> io::Result<()> {
            unreachable!()
        }

        fn sync_dir(&self, _: &Path) -> io::Result<()> {
            unreachable!()
        }
    }

    impl LogStore for Closing {
        fn lock(&self, _: &Path) -> io::Result<Box<dyn LockGuard>> {
            unreachable!("it is only read")
        }

        fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
            let sstable = |number| files::sstable(Path::new("/db"), FileNumber(number));
            self.0.create(&sstable(3))?;
            self.0.remove(&sstable(1))?;
            self.0.remove(&sstable(2))?;
            self.0.lock_shared(path)
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            unreachable!()
        }
    }

    impl TableFiles for Closing {}

    /// Regression: a repair that began while the database was being closed listed the files before
    /// it had the lock. The manifest then named a file that was not in the list, so the repair took
    /// the manifest for damaged, and used every file, also obsolete ones.
    #[test]
    fn the_files_are_those_that_are_there_under_the_lock() {
        let mem = MemDisk::new();
        let dir = Path::new("/db");
        mem.create_dir_all(dir).unwrap();
        for number in [1, 2] {
            mem.create(&files::sstable(dir, FileNumber(number)))
                .unwrap();
        }
        let disk = Arc::new(Closing(mem));
        let tables = LocalTables::new(disk.clone(), dir);
        let (found, _lock) = DbFiles::lock(&*disk, &tables, dir).unwrap();
        assert_eq!(found.sstables, [FileNumber(3)]);
    }

    #[test]
    fn a_directory_without_a_database_gets_no_lock_file() {
        let mem = MemDisk::new();
        let dir = Path::new("/db");
        mem.create_dir_all(dir).unwrap();
        let tables = LocalTables::new(Arc::new(mem.clone()), dir);
        let none = DbFiles::lock(&mem, &tables, dir);
        assert!(matches!(none, Err(Error::NoDatabase { .. })));
        assert!(mem.list(dir).unwrap().is_empty());
    }
}
