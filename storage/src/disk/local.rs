//! The real file system.
//!
//! A thin layer over `std::fs`: each method is the system call of the same name, plus the
//! syncs that the [`FileSystem`] contract requires.

use std::fs::{self, DirBuilder, File, FileType, OpenOptions, Permissions};
#[cfg(target_os = "linux")]
use std::io::IoSliceMut;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
#[cfg(target_os = "linux")]
use rustix::fs::{Advice, fadvise};
#[cfg(target_os = "linux")]
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::locked_dir::{LockedDir, LockedDirs, locked};
use crate::file_system::{FileSystem, ReadFile, SyncFile, WriteFile, of_sync};
use crate::log_store::{LockGuard, LogStore};
use crate::table_store::TableFiles;

/// The mode of new files: only the user of the process may read and write them.
const FILE_MODE: u32 = 0o600;
/// The mode of new directories: only the user of the process may list and enter them.
const DIR_MODE: u32 = 0o700;
/// The mode of new files of [`LocalDisk::group_readable`]: their group may read them, too.
const GROUP_FILE_MODE: u32 = 0o640;
const GROUP_DIR_MODE: u32 = 0o750;

/// The real file system.
///
/// Paths mean what they mean to `std::fs`: relative ones start at the current
/// directory of the process.
///
/// A file is a regular file, or a symbolic link to one. To open a pipe, a socket, a device or a directory as
/// a file is an error, and does not wait.
///
/// New files have mode 0600 and new directories 0700, even if the umask of the process is more
/// permissive, because the files hold the data of a database. [`LocalDisk::group_readable`] returns
/// a disk with other modes. The mode of a file or directory that exists does not change.
#[derive(Debug, Clone, Default)]
pub struct LocalDisk {
    is_group_readable: bool,
    /// The directories that this disk and its clones have locked.
    locked: LockedDirs,
}

impl LocalDisk {
    /// Returns the file system with mode 0640 for new files and 0750 for new directories, whatever
    /// the umask is: the users of their group, such as that of a backup, may read them.
    pub fn group_readable() -> Self {
        Self {
            is_group_readable: true,
            ..Self::default()
        }
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn locked_dirs(&self) -> &LockedDirs {
        &self.locked
    }

    /// Opens a file for writing, with `options`; creates it if it does not exist.
    fn open_or_create(&self, options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        if !self.is_group_readable {
            return open_regular(options.create(true).mode(FILE_MODE), path);
        }
        match options.create_new(true).mode(FILE_MODE).open(path) {
            Ok(file) => {
                // If the permission were requested when the file is opened, the umask could take it away.
                file.set_permissions(Permissions::from_mode(GROUP_FILE_MODE))?;
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open_regular(options.create_new(false), path)
            }
            Err(error) => Err(error),
        }
    }
}

impl FileSystem for LocalDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let file = open_regular(OpenOptions::new().read(true), path)?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        // O_APPEND, so that a truncation beside the writer leaves no hole at
        // its next append. std refuses append together with truncate, hence
        // the cut by hand.
        let file = self.open_or_create(OpenOptions::new().append(true), path)?;
        file.set_len(0)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = open_regular(OpenOptions::new().write(true), path)?;
        file.set_len(len)?;
        file.sync_all().map_err(of_sync)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = dir
            .ancestors()
            .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists())
            .collect();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(DIR_MODE).create(dir)?;
        // Outermost first: a name is only safe inside a directory that is.
        for created in missing.into_iter().rev() {
            if self.is_group_readable {
                fs::set_permissions(created, Permissions::from_mode(GROUP_DIR_MODE))?;
            }
            self.sync_dir(parent(created))?;
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let synced = match self.locked.find(dir) {
            Some(open) => open.file.sync_all(),
            None => File::open(dir)?.sync_all(),
        };
        synced.map_err(of_sync)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }
}

impl LogStore for LocalDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let file = self.open_or_create(OpenOptions::new().write(true), path)?;
        locked(path, file.try_lock())?;
        let (dir, _) = self.locked.lock(parent(path), File::try_lock)?;
        Ok(Box::new(FileLock {
            dir,
            _file: Some(file),
        }))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let file = match open_regular(OpenOptions::new().read(true), path) {
            Ok(file) => {
                locked(path, file.try_lock_shared())?;
                Some(file)
            }
            // The lock of the directory shows whether there is a writer.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (dir, is_locked) = self.locked.lock(parent(path), File::try_lock_shared)?;
        if file.is_none() && !is_locked {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(FileLock { dir, _file: file }))
    }
}

impl TableFiles for LocalDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A link to a symbolic link would be one to a name that may go.
        fs::hard_link(fs::canonicalize(from)?, to)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    #[cfg(target_os = "linux")]
    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        let stats = rustix::fs::statvfs(dir)?;
        // Some file systems in user space report zeros.
        let is_known = stats.f_blocks > 0;
        Ok(is_known.then(|| stats.f_bavail.saturating_mul(stats.f_frsize)))
    }
}

/// Opens a regular file with `options`. Does not wait: otherwise the opening of a pipe would last until
/// another process opens its other end.
///
/// # Errors
/// As [`OpenOptions::open`]; an error of the kind `InvalidInput` if something else has the name.
fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // The flag has no effect on the reads and writes of a regular file.
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let opened = options.custom_flags(no_wait).open(path);
    let found = match &opened {
        Ok(file) => file.metadata(),
        // The system's error about a socket or about a pipe without a reader would not name the cause.
        Err(_) => fs::metadata(path),
    };
    match found {
        Ok(found) if !found.is_file() => Err(irregular(found.file_type())),
        // Another process, such as a file server, has a lease on the file. The kernel ends the lease
        // while this call waits. Without the wait, a database would seem to be locked.
        Ok(_) if opened.as_ref().is_err_and(is_would_block) => options.custom_flags(0).open(path),
        _ => opened,
    }
}

fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns the error for a path that must lead to a regular file, and leads to something of the type
/// `found`.
fn irregular(found: FileType) -> io::Error {
    let found = if found.is_dir() {
        "a directory"
    } else if found.is_fifo() {
        "a named pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let text = format!(
        "{found} has the place of this file: move it away, and put the file back if there was one"
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Returns the directory that contains the file with this path; `.` for a bare relative name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An open file of the local disk, for reading or for writing.
#[derive(Debug)]
struct DiskFile(File);

impl ReadFile for DiskFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.0, buf, offset)
    }

    /// Reads with `RWF_DONTCACHE`, so that the kernel keeps no page that it had not cached before.
    /// The flag needs Linux 6.14 and ext4, XFS or Btrfs; elsewhere this reads as
    /// [`ReadFile::read_exact_at`] does.
    #[cfg(target_os = "linux")]
    fn read_once_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        let dont_cache = ReadWriteFlags::from_bits_retain(0x80);
        while !buf.is_empty() {
            match preadv2(&self.0, &mut [IoSliceMut::new(buf)], offset, dont_cache) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buf = &mut buf[read..];
                    offset += read as u64;
                }
                Err(Errno::INTR) => {}
                // The file system or the kernel does not support the flag, or the call.
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                    return self.read_exact_at(buf, offset);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn forget_cached(&self) -> io::Result<()> {
        Ok(fadvise(&self.0, 0, None, Advice::DontNeed)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl WriteFile for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Advises the kernel that its cache need not keep the file. On this advice the kernel begins to write
    /// the changed pages, and drops those that it had written before.
    #[cfg(target_os = "linux")]
    fn begin_sync(&mut self) {
        // Without the advice, the sync writes all pages.
        let _ = fadvise(&self.0, 0, None, Advice::DontNeed);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data().map_err(of_sync)
    }

    /// Returns a handle that shares the open file description of the writer, and so its error state: if a
    /// write-back fails, the kernel reports that once, to the handle that syncs first. A failure of either
    /// handle must be treated as a failure of the file.
    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        Ok(Box::new(DiskFile(self.0.try_clone()?)))
    }
}

impl SyncFile for DiskFile {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data().map_err(of_sync)
    }
}

/// Advisory locks of a file and of its directory, released by the kernel when these are closed, also
/// when the process dies.
#[derive(Debug)]
struct FileLock {
    // Closed in this order: once the file is free, the directory is.
    dir: LockedDir,
    _file: Option<File>,
}

impl LockGuard for FileLock {
    fn is_in_place(&self) -> io::Result<bool> {
        self.dir.is_in_place()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn new_files_and_directories_are_for_their_owner_or_its_group() {
        for (disk, modes) in [
            (LocalDisk::default(), [0o700, 0o600]),
            (LocalDisk::group_readable(), [0o750, 0o640]),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let outer = temp.path().join("outer");
            let inner = outer.join("inner");
            disk.create_dir_all(&inner).unwrap();
            let (file, lock) = (inner.join("file"), inner.join("LOCK"));
            drop(disk.create(&file).unwrap());
            drop(disk.lock(&lock).unwrap());
            let [of_dirs, of_files] = modes;
            let found = [&outer, &inner, &file, &lock].map(|path| mode(path));
            assert_eq!(found, [of_dirs, of_dirs, of_files, of_files]);
        }
    }

    #[test]
    fn the_mode_of_an_existing_file_or_directory_does_not_change() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, file) = (temp.path().join("dir"), temp.path().join("dir/file"));
        fs::create_dir(&dir).unwrap();
        fs::write(&file, b"rows").unwrap();
        for (path, mode) in [(&dir, 0o755), (&file, 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        for disk in [LocalDisk::default(), LocalDisk::group_readable()] {
            disk.create_dir_all(&dir).unwrap();
            fs::write(&file, b"rows").unwrap();
            drop(disk.lock(&file).unwrap());
            assert_eq!(fs::read(&file).unwrap(), b"rows");
            drop(disk.create(&file).unwrap());
            assert_eq!(fs::read(&file).unwrap(), b"");
            assert_eq!((mode(&dir), mode(&file)), (0o755, 0o644));
        }
    }

    #[test]
    fn lock_file_survives_its_guard_and_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        fs::write(&path, b"pid 7").unwrap();
        drop(LocalDisk::default().lock(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"pid 7");
    }

    /// Regression: a symbolic link to a file was ingested, and the database linked the symbolic
    /// link and not the file: when the file's own name was removed, the rows were gone.
    #[test]
    fn a_link_is_to_the_file_and_not_to_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let [file, symbolic, link] = ["file", "symbolic", "link"].map(|name| dir.path().join(name));
        fs::write(&file, b"rows").unwrap();
        std::os::unix::fs::symlink("file", &symbolic).unwrap();
        LocalDisk::default().link(&symbolic, &link).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(fs::read(&link).unwrap(), b"rows");
    }

    #[test]
    fn read_once_returns_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let file = LocalDisk::default().open_read(&path).unwrap();
        for (from, to) in [
            (0, 100_000),
            (1, 2),
            (4096, 8192),
            (99_999, 100_000),
            (5, 5),
        ] {
            let mut read = vec![0; to - from];
            file.read_once_exact_at(&mut read, from as u64).unwrap();
            assert_eq!(read, bytes[from..to]);
        }
        for from in [99_999, 100_000, 200_000] {
            let error = file.read_once_exact_at(&mut [0; 2], from).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn the_parent_of_a_bare_name_is_the_current_directory() {
        assert_eq!(parent(Path::new("db")), Path::new("."));
        assert_eq!(parent(Path::new("db/sst")), Path::new("db"));
        assert_eq!(parent(Path::new("/db")), Path::new("/"));
        assert_eq!(parent(Path::new("/")), Path::new("."));
    }

    /// Regression: the opening of a database or its repair waited without end for a writer of a pipe.
    #[test]
    fn anything_but_a_regular_file_is_refused_without_waiting_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let [pipe, socket, device] = ["pipe", "socket", "device"].map(|name| dir.path().join(name));
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let _listener = UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        let check = |path: &Path, found: &str| {
            for disk in [LocalDisk::default(), LocalDisk::group_readable()] {
                for refused in [
                    disk.open_read(path).map(drop),
                    disk.create(path).map(drop),
                    disk.truncate(path, 0),
                    disk.lock(path).map(drop),
                    disk.lock_shared(path).map(drop),
                ] {
                    let refused = refused.unwrap_err().to_string();
                    assert!(refused.contains(found), "{refused}");
                }
            }
        };
        {
            // With an opener of both ends, no call would wait, so the calls would succeed if they did not
            // look at the kind of the file.
            let ends = OpenOptions::new().read(true).write(true).open(&pipe);
            let _ends = ends.unwrap();
            check(&pipe, "a named pipe has the place of this file");
        }
        check(&pipe, "a named pipe has the place of this file");
        check(&socket, "a socket has the place of this file");
        check(&device, "a device has the place of this file");
        check(dir.path(), "a directory has the place of this file");
    }

    #[test]
    fn a_directory_in_the_way_of_a_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(LocalDisk::default().create(dir.path()).is_err());
        assert!(LocalDisk::default().remove(dir.path()).is_err());
    }
}
