//! The lock of a database's directory: one writer, or any number of readers.

use std::io;
use std::path::Path;

use super::{LockGuard, LogStore};
use crate::error::{Error, Result};
use crate::files;

/// Takes the exclusive lock of a directory, which is held for as long as the
/// guard lives.
///
/// # Errors
/// [`Error::Locked`] if another process or handle holds the lock; [`Error::Io`].
pub(crate) fn take_lock(log_store: &dyn LogStore, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let path = files::lock(dir);
    log_store.lock(&path).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked {
            path: dir.to_path_buf(),
        },
        _ => Error::io("lock", &path)(e),
    })
}

/// Checks that a locked directory is still at its path. The engine opens files by their paths:
/// after the directory was moved, a file is missing at its path, or is a file of another directory.
/// If `lock` is `None`, this checks nothing.
///
/// # Errors
/// [`Error::Io`] if the directory was moved or replaced, or if this cannot be found out.
pub(crate) fn check_in_place(lock: Option<&dyn LockGuard>, dir: &Path) -> Result<()> {
    let is_in_place = lock.map_or(Ok(true), |lock| lock.is_in_place());
    let outcome = match is_in_place {
        Ok(true) => Ok(()),
        Ok(false) => Err(moved_error(dir)),
        Err(error) => Err(error),
    };
    outcome.map_err(Error::io("read", dir))
}

/// Returns the error of a call in a directory that was moved or replaced since it was locked.
pub(crate) fn moved_error(dir: &Path) -> io::Error {
    let error = format!(
        "{} is no longer the directory that was opened: it was moved or replaced",
        dir.display()
    );
    // So no caller takes a file for missing or damaged: see `Error::is_of_file`.
    io::Error::new(io::ErrorKind::NotADirectory, error)
}

/// Takes the shared lock of a directory, which other readers may hold, too. Writes nothing. Returns
/// `None` if there is no lock file, and the disk cannot lock the directory instead: then the caller
/// has to prevent writers from opening the directory.
///
/// # Errors
/// [`Error::BeingWritten`] if the directory is open for writing; [`Error::Io`].
pub(crate) fn share_lock(
    log_store: &dyn LogStore,
    dir: &Path,
) -> Result<Option<Box<dyn LockGuard>>> {
    let path = files::lock(dir);
    match log_store.lock_shared(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(Error::BeingWritten {
            path: dir.to_path_buf(),
        }),
        Err(e) => Err(Error::io("lock", &path)(e)),
    }
}
