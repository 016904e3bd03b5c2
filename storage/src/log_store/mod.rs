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

use crate::file_system::FileSystem;

/// The storage of the log and the manifest of a database.
pub trait LogStore: FileSystem {
    /// Atomically renames a file, and replaces the target if it exists. The new name is durable
    /// after a [`FileSystem::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a lock file until the guard drops; `ErrorKind::WouldBlock`
    /// if it is already locked. The lock should outlast the removal of the file.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Takes a shared lock on a lock file until the guard drops, and writes nothing.
    /// `ErrorKind::WouldBlock` if the file is locked by [`LogStore::lock`]; `ErrorKind::NotFound`
    /// if it does not exist, and its directory cannot be locked instead; `ErrorKind::Unsupported`
    /// if the disk has no shared locks.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + Debug {
    /// Returns whether the locked directory is still at its path. Returns false if it was moved
    /// away, or another one is there now; true if the guard cannot find this out.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
}
