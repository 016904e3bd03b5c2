//! The door for what is appended to and replaced: the log, the manifest, and the lock
//! that says who may.
//!
//! ```text
//!   lock ─► create ─► append, sync ─► sync_dir ─► rename over CURRENT ─► sync_dir
//! ```
//!
//! An object store can do none of this as it is: nothing is ever appended there, and
//! nothing renamed. Tables, which ask for less, go through
//! [`TableStore`](crate::TableStore).

mod lock;

use std::fmt::Debug;
use std::io;
use std::path::Path;

pub(crate) use lock::{share_lock, take_lock};

use crate::file_system::FileSystem;

/// Where the log and the manifest of a database lie.
pub trait LogStore: FileSystem {
    /// Atomically renames, replacing the target. The new name is durable after a
    /// [`FileSystem::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a lock file until the guard drops;
    /// `ErrorKind::WouldBlock` when somebody else holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Takes a lock that any number may share on a lock file that is there, until the
    /// guard drops, and writes nothing; `ErrorKind::WouldBlock` when somebody holds
    /// it by [`LogStore::lock`]. A disk that cannot do that says
    /// `ErrorKind::Unsupported`.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + Debug {}
