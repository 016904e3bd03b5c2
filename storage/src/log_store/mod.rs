//! The interface to storage for files that grow or are replaced: the log, the manifest, and
//! the lock that admits one writer.
//!
//! ```text
//!   lock ─► create ─► append, sync ─► sync_dir ─► rename over CURRENT ─► sync_dir
//! ```
//!
//! An object store supports none of this as it is: it has neither append nor rename. Tables,
//! which need less, go through [`TableStore`](crate::TableStore).

mod lock;

use std::fmt::Debug;
use std::io;
use std::path::Path;

pub(crate) use lock::{check_in_place, moved_error, share_lock, take_lock};

use crate::error::{Error, Result};
use crate::file_system::FileSystem;

/// The storage of the log and the manifest of a database.
pub trait LogStore: FileSystem {
    /// Atomically renames a file, and replaces the target if it exists. The new name is durable
    /// after a [`FileSystem::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a lock file, and creates the file if it is missing. The lock is
    /// held until the guard is dropped, and should be held even if the file is removed. Fails with
    /// `ErrorKind::WouldBlock` if the file is already locked.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Takes a shared lock on a lock file until the guard is dropped, and writes nothing. Fails with
    /// `ErrorKind::WouldBlock` if the file is locked by [`LogStore::lock`]; with
    /// `ErrorKind::NotFound` if the file does not exist, and its directory cannot be locked
    /// instead; with `ErrorKind::Unsupported` if the disk has no shared locks.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) fn read_all(log_store: &dyn LogStore, path: &Path) -> Result<Vec<u8>> {
    let file = log_store.open_read(path).map_err(Error::io("open", path))?;
    let mut bytes = vec![0; file.len().map_err(Error::io("read", path))? as usize];
    file.read_exact_at(&mut bytes, 0)
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + Debug {
    /// Returns whether the locked directory is still at its path. Returns false if the directory
    /// was moved away, or if another directory is at the path now; true if the guard cannot find
    /// this out.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
}
