//! Files and directories: what the log and the tables both ask of a disk.
//!
//! The engine never calls `std::fs`. What is appended to and replaced (the log, the
//! manifest) goes through [`LogStore`](crate::LogStore), tables go through
//! [`TableStore`](crate::TableStore), and the disk under both is a [`FileSystem`].

mod copy;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use copy::{OrZeros, copy, copy_in_steps, read_in_steps, sync_copied};

/// Named files that are appended to, cut, read and removed.
///
/// Durability follows POSIX: the bytes of a file are durable after
/// [`WriteFile::sync`]; creating or removing a name is durable after
/// [`FileSystem::sync_dir`] of its directory.
pub trait FileSystem: Send + Sync + Debug {
    /// Opens a file for positioned reads.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;
    /// Creates a file for appending. A file that exists at `path` is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;
    /// Cuts a file to its first `len` bytes, and makes these durable. `len` must not exceed the
    /// length of the file.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Returns the paths of the entries of a directory, each with `dir` in front, in no particular
    /// order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Creates a directory and those of its parents that are missing. The new directories are
    /// durable when the call returns.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes created, linked, renamed and removed names of a directory durable.
    ///
    /// After an error of the kind `StorageFull` or `QuotaExceeded`, the engine tries again. The
    /// next call that succeeds must make all names durable, also those that the failed call was
    /// to make durable, and those of other threads. After any other error names may be lost, and no later call
    /// would report it. So each later sync of the database's directory fails in the engine, and writes end, at the
    /// latest with the next segment of the log. (If Linux could not write a block of a directory, it reports EIO,
    /// never ENOSPC.)
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Returns whether a file or directory exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
}

/// A file open for positioned reads, from any number of threads.
pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buf` with the bytes from `offset` on. Fails with `ErrorKind::UnexpectedEof` if the
    /// file ends before `buf` is full.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Does the same as [`Self::read_exact_at`], for bytes that will not be needed again soon. A
    /// file system with a cache should not keep these bytes in it, unless it had cached them before
    /// the call, so that they displace no other data.
    fn read_once_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }
    /// Drops the file from the caches of the system, if possible, so that the next read comes
    /// from the disk.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

// The same numbers on all systems that have these errors.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Returns whether a call failed because the process or the machine has no file descriptor or no
/// memory left. The same call may succeed later, once other files were closed or memory was freed.
pub(crate) fn is_out_of_resources(error: &io::Error) -> bool {
    // The system reports ENOMEM as this kind.
    error.kind() == io::ErrorKind::OutOfMemory
        || matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Converts the error of a sync (fsync). A lack of memory becomes an error of another kind, so that
/// [`is_out_of_resources`] is false and no caller repeats the sync. The system reports a lost page
/// only once, with whatever error the write of that page had. So a repeated sync may succeed although
/// the page is lost.
pub(crate) fn of_sync(error: io::Error) -> io::Error {
    if is_out_of_resources(&error) {
        io::Error::other(error)
    } else {
        error
    }
}

/// Returns whether a call failed because a file is missing or cannot be read. Returns false for
/// causes that are no fault of the file: a lack of descriptors or memory passes, a lack of
/// permission is a mistake in the file's modes, and a directory that was moved
/// ([`io::ErrorKind::NotADirectory`]) has undamaged files.
pub(crate) fn is_fault_of_file(error: &io::Error) -> bool {
    let others = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::NotADirectory,
    ];
    !others.contains(&error.kind()) && !is_out_of_resources(error)
}

/// Returns the outcome of removing a file that is no longer needed. If the file did not exist, this
/// is a success, too: a user may have removed it by hand.
pub(crate) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns advice for the user if the process or the machine has no file descriptor or no memory
/// left, as text to append to the message of `error`. Returns an empty text for other errors.
pub(crate) fn resource_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(EMFILE) => {
            "; raise the limit of open files, with `ulimit -n` or LimitNOFILE= of a systemd unit"
        }
        Some(ENFILE) => {
            "; the machine can open no more files: end other processes, or raise fs.file-max"
        }
        _ if error.kind() == io::ErrorKind::OutOfMemory => {
            "; raise the memory limit of the process, with MemoryMax= of a systemd unit"
        }
        _ => "",
    }
}

/// A file being appended to, by one thread at a time.
pub trait WriteFile: Send + Debug {
    /// Appends all of `bytes`. After an error, an unknown part of them may have been appended.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Begins to write the appended bytes to the disk, without waiting until they are written, so
    /// that a later sync takes less time. This call makes nothing durable, and only the sync reports
    /// failures. A file system that cannot do this does nothing.
    fn begin_sync(&mut self) {}
    /// Makes all that was appended durable (fdatasync).
    fn sync(&mut self) -> io::Result<()>;
    /// Returns a handle that can sync the same file while another thread appends. Each sync by this
    /// handle covers what was appended before the sync began.
    fn syncer(&self) -> io::Result<Box<dyn SyncFile>>;
}

/// A second handle on a file, which makes the file durable while its writer goes on.
pub trait SyncFile: Send + Sync + Debug {
    /// Makes all that was appended before the call durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_passes_unless_a_sync_reports_it() {
        const ENOMEM: i32 = 12;
        for (number, passes) in [(ENOMEM, true), (EMFILE, true), (ENFILE, true), (5, false)] {
            let error = || io::Error::from_raw_os_error(number);
            assert_eq!(is_out_of_resources(&error()), passes, "{number}");
            assert_eq!(is_fault_of_file(&error()), !passes, "{number}");
            assert!(!is_out_of_resources(&of_sync(error())), "{number}");
        }
    }
}
