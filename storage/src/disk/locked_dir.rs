//! The directories of lock files. They are locked like the files, and stay open for as long.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The directories that are locked at present. They are open for their locks, so a sync of one needs no file
/// descriptor: a lack of descriptors cannot come between two steps of an edit of the manifest.
///
/// No other directory is kept open. The target of a backup, for example, must stay a directory whose file
/// system can be unmounted.
#[derive(Debug, Clone, Default)]
pub(super) struct LockedDirs(Arc<Mutex<Vec<Weak<OpenDir>>>>);

impl LockedDirs {
    /// Opens the directory `path`, and locks it with `try_lock`. Also returns whether it is locked: not every
    /// file system locks directories.
    ///
    /// # Errors
    /// An error of the kind `WouldBlock` if the lock is taken; as [`File::open`].
    pub(super) fn lock(
        &self,
        path: &Path,
        try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> io::Result<(LockedDir, bool)> {
        let file = File::open(path)?;
        let is_locked = match try_lock(&file) {
            Err(TryLockError::Error(_)) => false,
            tried => locked(path, tried).map(|()| true)?,
        };
        let path = path.to_path_buf();
        let dir = Arc::new(OpenDir { file, path });
        let mut dirs = self.dirs();
        dirs.retain(|dir| dir.strong_count() > 0);
        dirs.push(Arc::downgrade(&dir));
        drop(dirs);
        Ok((LockedDir(dir), is_locked))
    }

    /// Returns the locked directory at `path`; `None` if the directory there is not locked, for example
    /// because it has taken the place of a locked one.
    pub(super) fn find(&self, path: &Path) -> Option<Arc<OpenDir>> {
        let open: Vec<_> = self.dirs().iter().filter_map(Weak::upgrade).collect();
        let is_at_path =
            |dir: &Arc<OpenDir>| dir.path == path && matches!(dir.is_in_place(), Ok(true));
        open.into_iter().find(is_at_path)
    }

    fn dirs(&self) -> MutexGuard<'_, Vec<Weak<OpenDir>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open directory, with the path at which it was opened.
#[derive(Debug)]
pub(super) struct OpenDir {
    pub(super) file: File,
    path: PathBuf,
}

impl OpenDir {
    /// Returns whether the directory is still at its path: it was neither moved nor replaced.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        let id = |found: &Metadata| (found.dev(), found.ino());
        match fs::metadata(&self.path) {
            Ok(found) => Ok(id(&found) == id(&self.file.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The directory of a lock file, which is locked until this is dropped. The directory is locked like the file,
/// because neither lock is enough: a lock file that looks stale may be removed by hand, and the next process
/// then creates and locks another one; and on NFS, the lock of a directory holds on one machine only.
#[derive(Debug)]
pub(super) struct LockedDir(Arc<OpenDir>);

impl LockedDir {
    /// As [`OpenDir::is_in_place`].
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        self.0.is_in_place()
    }
}

impl Drop for LockedDir {
    fn drop(&mut self) {
        // A sync of the directory that still runs keeps it open, and must not keep the lock. If this fails,
        // the kernel releases the lock when the directory is closed.
        let _ = self.0.file.unlock();
    }
}

/// Converts the outcome of trying a lock into a result. If the lock is taken, the error names the
/// lock file or the directory at `path`.
pub(super) fn locked(path: &Path, tried: Result<(), TryLockError>) -> io::Result<()> {
    tried.map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{} is locked by somebody else", path.display()),
        ),
        TryLockError::Error(error) => error,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::Path;

    use rustix::fs::inotify;

    use crate::disk::LocalDisk;
    use crate::file_system::FileSystem;
    use crate::log_store::LogStore;

    /// Regression: each sync of the database's directory opened the directory, so an edit of the manifest
    /// waited in its middle while the process had no descriptor.
    #[test]
    fn the_sync_of_a_directory_opens_it_only_if_it_is_not_locked() {
        let parent = tempfile::tempdir().unwrap();
        let [dir, moved] = ["db", "moved"].map(|name| parent.path().join(name));
        let disk = LocalDisk::default();
        disk.create_dir_all(&dir).unwrap();
        let opens = |path: &Path| {
            let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
            let watch = inotify::init(flags).unwrap();
            inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).unwrap();
            disk.sync_dir(path).unwrap();
            let mut events = [0_u8; 4096];
            // Without an event there is nothing to read.
            rustix::io::read(&watch, &mut events).is_ok()
        };
        assert!(opens(&dir));
        let writer = disk.lock(&dir.join("LOCK")).unwrap();
        assert!(!opens(&dir));
        // Another directory in the place of the locked one is synced, and not the locked one.
        disk.rename(&dir, &moved).unwrap();
        disk.create_dir_all(&dir).unwrap();
        assert!(opens(&dir) && opens(&moved));
        drop(writer);

        let reader = disk.clone().lock_shared(&dir.join("LOCK")).unwrap();
        assert!(!opens(&dir));
        drop(reader);
        assert!(opens(&dir));
    }

    #[test]
    fn a_sync_under_way_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let disk = LocalDisk::default();
        let lock = dir.path().join("LOCK");
        let writer = disk.lock(&lock).unwrap();
        let synced = disk.locked_dirs().find(dir.path());
        assert!(synced.is_some());
        drop(writer);
        drop(disk.lock(&lock).unwrap());
        drop(synced);
    }
}
