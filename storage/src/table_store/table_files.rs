//! The operations that tables in a directory need of a disk, beside those of files.

use std::io;
use std::path::Path;

use crate::file_system::FileSystem;

/// A disk whose files can have second names, and which reports its free space.
/// [`LocalTables`](crate::LocalTables) are stored on such a disk.
pub trait TableFiles: FileSystem {
    /// Gives a file a second name (a hard link). Both names share its bytes; removing one keeps the
    /// other. If `from` is a symbolic link, the file that it leads to gets the name. The new name
    /// is durable after [`FileSystem::sync_dir`] of its directory.
    ///
    /// # Errors
    /// `ErrorKind::AlreadyExists` when the name is taken; `CrossesDevices` or `Unsupported` if the
    /// file can have no link at `to`: the caller copies the file then.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes an empty directory. After a crash the directory may exist again. A path that is no
    /// directory stays, as do symbolic links, and a directory with files in it is refused with
    /// [`io::ErrorKind::DirectoryNotEmpty`].
    ///
    /// A disk need not support this, as by default. Then a backup cannot keep the files that it
    /// needs by hard links in a temporary directory. Instead, until the backup ends, the database
    /// removes no log segments and none of the SSTables that the backup needs.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let _ = dir;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the number of free bytes for further files of a directory; `None` if it is unknown.
    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
}
