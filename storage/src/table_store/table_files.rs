//! The operations that tables in a directory need of a disk, beside those of files.

use std::io;
use std::path::Path;

use crate::file_system::FileSystem;

/// A disk whose files can have a second name, and which knows how much space it has:
/// [`LocalTables`](crate::LocalTables) lie on it.
pub trait TableFiles: FileSystem {
    /// Gives a file a second name (a hard link). Both names share its bytes;
    /// removing one keeps the other. Of a symbolic link it is the file behind it
    /// that gets the name. The new name is durable after [`FileSystem::sync_dir`] of
    /// its directory.
    ///
    /// # Errors
    /// `ErrorKind::AlreadyExists` when the name is taken; `CrossesDevices` or
    /// `Unsupported` where this cannot be: copy the file then.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes an empty directory. After a crash it may be there again. A path that is something
    /// else stays, symbolic links included, and a directory with files in it is refused with
    /// [`io::ErrorKind::DirectoryNotEmpty`]. Where this is not supported, a backup makes no
    /// directory for links, and holds the log instead.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let _ = dir;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the bytes that more files of a directory may take; `None` if they are unknown.
    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
}
