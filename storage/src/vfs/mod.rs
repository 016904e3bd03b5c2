//! The only door to the disk.
//!
//! The engine never calls `std::fs`: it goes through [`Vfs`], which has a real
//! implementation ([`DiskVfs`]) and one in memory that can lose power at any
//! call ([`MemVfs`]).

mod copy;
#[expect(clippy::disallowed_methods, reason = "the door to the disk")]
mod disk;
mod link_or_copy;
mod mem;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use copy::copy;
pub(crate) use copy::copy_open;
pub use disk::DiskVfs;
pub(crate) use link_or_copy::{Way, copy_file, link_or_copy};
pub use mem::{FaultOp, MemVfs};

/// A file system, as far as the engine needs one.
///
/// Durability follows POSIX: the bytes of a file are durable after
/// [`WriteFile::sync`]; creating, renaming or removing a name is durable after
/// [`Vfs::sync_dir`] of its directory.
pub trait Vfs: Send + Sync + Debug {
    /// Opens a file for positioned reads.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;
    /// Creates a file (truncating one that is there) for appending.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;
    /// Cuts a file to `len` bytes and makes the cut durable.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;
    /// Atomically renames, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name (a hard link). Both names share its bytes;
    /// removing one keeps the other. Of a symbolic link it is the file behind it
    /// that gets the name. The new name is durable after [`Vfs::sync_dir`] of its
    /// directory.
    ///
    /// # Errors
    /// `ErrorKind::AlreadyExists` when the name is taken; `CrossesDevices` or
    /// `Unsupported` where this cannot be: copy the file then.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Paths of the entries of a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Creates a directory and its parents, those that are missing; they are
    /// durable when the call returns.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that more files of a directory may take; `None` where nobody can tell.
    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
    /// Whether a file or directory is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Takes an exclusive lock on a lock file until the guard drops;
    /// `ErrorKind::WouldBlock` when somebody else holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Takes a lock that any number may share on a lock file that is there, until the
    /// guard drops, and writes nothing; `ErrorKind::WouldBlock` when somebody holds
    /// it by [`Vfs::lock`]. A disk that cannot do that says `ErrorKind::Unsupported`.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file open for positioned reads, from any number of threads.
pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buf` from `offset`; `ErrorKind::UnexpectedEof` past the end.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// The same of bytes that will not be wanted again soon: a file system that
    /// caches should forget what it had not cached before, rather than something
    /// else.
    fn read_once_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file being appended to, by one thread at a time.
pub trait WriteFile: Send + Debug {
    /// Appends all of `bytes`; on an error an unknown part may be written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes all that was appended durable (fdatasync).
    fn sync(&mut self) -> io::Result<()>;
    /// A handle that can sync the same file while another thread appends;
    /// it covers what was appended before the call.
    fn syncer(&self) -> io::Result<Box<dyn SyncFile>>;
}

/// Makes a file durable from beside its writer.
pub trait SyncFile: Send + Sync + Debug {
    /// Makes all that was appended before the call durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + Debug {}
