//! A disk that waits while the process has no file descriptor left, or the system no memory for a
//! call.
//!
//! The lack passes: the engine closes tables and spare descriptors, and the program closes other
//! files, or memory becomes free. So a call that writes waits until it succeeds: a failure would
//! leave a manifest in an unknown state, and stop all writes. A call that makes a segment of the log
//! fails after a second, because a commit waits for it, which can be refused: nothing of it is
//! written yet. A call that reads or removes fails after a while, because the caller may itself hold
//! the descriptors that it waits for.
//! While the database is being opened a call that writes fails after a while too: nothing relies on a
//! database that did not open.
//!
//! Files are opened by their paths. So while the database is open, for writing or for reading only, a
//! call that opens or changes something in its directory fails once the directory was moved away, or
//! another one was put or mounted in its place: otherwise the database would go on in both, and a
//! reader would take files of the other one for its own.
//!
//! Once a sync of the database's directory has failed, each later one fails too, unless there was only no
//! space. The system reports lost names once, to one caller. The others would rely on names that are lost:
//! a merge would remove its inputs, and the log would acknowledge commits in a segment without a name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use crate::disk::Disk;
use crate::file_system::{FileSystem, ReadFile, SyncFile, WriteFile, is_out_of_resources};
use crate::log_store::{LockGuard, LogStore, moved_error};
use crate::mutation::{self, Mutation};
use crate::table_store::{OpenFiles, Stage, TableFiles};

/// The pause between two tries of a call that finds no file descriptor.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// A read, or any call while the database is being opened, fails if it finds no descriptor at this
/// many tries, which take five seconds in all.
const TRIES_MAX: u64 = 500;
/// While the database is open, a call that makes a segment of the log fails if it finds no descriptor
/// at this many tries, which take a second in all.
const SEGMENT_TRIES_MAX: u64 = 100;

/// The kinds of calls, by how long they wait for a file descriptor while the database is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Reads,
    Writes,
    MakesSegment,
}

impl Patience {
    /// Returns how often a call without a free file descriptor is tried before it fails; `None`:
    /// until it succeeds.
    fn tries_max(self) -> Option<u64> {
        match self {
            Self::Reads => Some(TRIES_MAX),
            Self::Writes => None,
            Self::MakesSegment => Some(SEGMENT_TRIES_MAX),
        }
    }
}

/// A disk whose calls wait for file descriptors.
#[derive(Debug, Clone)]
pub(crate) struct PatientDisk {
    disk: Arc<dyn Disk>,
    /// Open tables and spare descriptors, which are closed to free descriptors.
    files: Arc<OpenFiles>,
    /// How long calls that create files, open second handles on them, or sync directories wait for
    /// a file descriptor.
    making: Patience,
    /// The database's directory, with its lock. Set when the first lock is taken, because this is
    /// the lock of the database; empty before.
    home: Arc<OnceLock<Home>>,
}

/// A directory with its lock.
#[derive(Debug)]
struct Home {
    dir: PathBuf,
    lock: SharedLock,
    /// The kind and the text of the error by which a sync of the directory failed, if names may be lost.
    lost_names: OnceLock<(io::ErrorKind, String)>,
}

impl Home {
    /// Syncs the directory by `sync`. Fails also if another sync has failed, before this one or beside it, by
    /// an error after which names may be lost. Syncs do not wait for each other, so one that returns within
    /// the instant between such a failure and its record here does not see it.
    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.check_names()?;
        match sync() {
            Ok(()) => self.check_names(),
            Err(error) => {
                if !is_lack_of_space(&error) && !is_out_of_resources(&error) {
                    let _first = self.lost_names.set((error.kind(), error.to_string()));
                }
                Err(error)
            }
        }
    }

    fn check_names(&self) -> io::Result<()> {
        let Some((kind, text)) = self.lost_names.get() else {
            return Ok(());
        };
        let text = format!("another sync of the directory failed: {text}");
        Err(io::Error::new(*kind, text))
    }
}

/// Returns whether a call failed because the disk or the quota is full. [`FileSystem::sync_dir`] loses no names
/// then.
fn is_lack_of_space(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&error.kind())
}

/// A lock that is released when its [`HeldLock`] drops, even while another thread checks the lock.
/// (A weak reference would not do: the check would keep the lock, and the next opening would be
/// refused.)
#[derive(Debug, Clone)]
struct SharedLock(Arc<RwLock<Option<Box<dyn LockGuard>>>>);

impl SharedLock {
    /// Returns the result of [`LockGuard::is_in_place`] while the lock is held, and `true`
    /// afterwards.
    fn is_in_place(&self) -> io::Result<bool> {
        let lock = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lock.as_ref().map_or(Ok(true), |lock| lock.is_in_place())
    }
}

/// The guard of a directory's lock. Its drop releases the lock, even while [`Home`] still
/// refers to the lock.
#[derive(Debug)]
struct HeldLock(SharedLock);

impl LockGuard for HeldLock {
    fn is_in_place(&self) -> io::Result<bool> {
        self.0.is_in_place()
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let lock = &self.0.0;
        let held = lock.write().unwrap_or_else(PoisonError::into_inner).take();
        // Only now, because this is a call to the disk.
        drop(held);
    }
}

impl PatientDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, files: Arc<OpenFiles>) -> Self {
        Self {
            disk,
            files,
            making: Patience::Writes,
            home: Arc::default(),
        }
    }

    /// Returns this disk for making segments of the log. Its calls that create files, open second
    /// handles on them, or sync directories wait for a file descriptor for only a second.
    pub(crate) fn for_log(&self) -> Self {
        Self {
            making: Patience::MakesSegment,
            ..self.clone()
        }
    }

    pub(crate) fn files(&self) -> &Arc<OpenFiles> {
        &self.files
    }

    /// Opens an existing file a few times, as spare descriptors to be closed when the process has
    /// no other left. There are fewer if the process has hardly any left now.
    pub(crate) fn hold_spares(&self, path: &Path) {
        self.files.hold_spares(|| self.disk.open_read(path));
    }

    /// Returns a guard for `lock`, which was taken by the lock file at `path`. The first lock that
    /// is taken is the lock of the database: the directory of its lock file is recorded as the
    /// database's directory.
    fn hold(&self, path: &Path, lock: Box<dyn LockGuard>) -> Box<dyn LockGuard> {
        let lock = SharedLock(Arc::new(RwLock::new(Some(lock))));
        if let Some(dir) = path.parent() {
            let (dir, lock) = (dir.to_path_buf(), lock.clone());
            self.home.get_or_init(|| Home {
                dir,
                lock,
                lost_names: OnceLock::new(),
            });
        }
        Box::new(HeldLock(lock))
    }

    /// Returns an error if `path` is the database's directory or lies in it, and the directory is
    /// no longer where it was opened: it was moved or replaced.
    fn check_place(&self, path: &Path) -> io::Result<()> {
        let is_inside = |home: &&Home| path.starts_with(&home.dir);
        let Some(home) = self.home.get().filter(is_inside) else {
            return Ok(());
        };
        if mutation::is(Mutation::WriteIntoAnotherDirectory) || home.lock.is_in_place()? {
            return Ok(());
        }
        Err(moved_error(&home.dir))
    }

    fn making<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.calling(self.making, call)
    }

    fn reading<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.calling(Patience::Reads, call)
    }

    fn calling<T>(
        &self,
        patience: Patience,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut tried = 0;
        loop {
            let outcome = call();
            tried += 1;
            let tries_max = match self.files.stage() {
                Stage::Open => patience.tries_max(),
                Stage::Opening => Some(TRIES_MAX),
                Stage::Closing => Some(0),
            };
            let is_to_wait = tries_max.is_none_or(|max| tried < max);
            match &outcome {
                Err(e) if is_out_of_resources(e) && is_to_wait => {}
                _ => return outcome,
            }
            if tried > 1 {
                thread::park_timeout(RETRY_AFTER);
                self.files.note_wait(RETRY_AFTER);
            }
            // Right before the next try: readers would open tables that are closed earlier again.
            self.files.make_room();
            if patience != Patience::Reads {
                self.files.give_up_spares();
            }
        }
    }
}

impl FileSystem for PatientDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.reading(|| {
            self.check_place(path)?;
            self.disk.open_read(path)
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.making(|| {
            self.check_place(path)?;
            self.disk.create(path)
        })?;
        let disk = self.clone();
        Ok(Box::new(PatientFile { file, disk }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.calling(Patience::Writes, || {
            self.check_place(path)?;
            self.disk.truncate(path, len)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.reading(|| {
            self.check_place(path)?;
            self.disk.remove(path)
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.reading(|| self.disk.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.reading(|| {
            self.check_place(dir)?;
            self.disk.create_dir_all(dir)
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let home = self.home.get().filter(|home| home.dir == dir);
        self.making(|| {
            self.check_place(dir)?;
            match home {
                Some(home) => home.sync(|| self.disk.sync_dir(dir)),
                None => self.disk.sync_dir(dir),
            }
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
}

impl LogStore for PatientDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.calling(Patience::Writes, || {
            self.check_place(from)?;
            self.check_place(to)?;
            self.disk.rename(from, to)
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let lock = self.reading(|| self.disk.lock(path))?;
        Ok(self.hold(path, lock))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let lock = self.reading(|| self.disk.lock_shared(path))?;
        Ok(self.hold(path, lock))
    }
}

impl TableFiles for PatientDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.reading(|| {
            self.check_place(from)?;
            self.check_place(to)?;
            self.disk.link(from, to)
        })
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.check_place(dir)?;
        self.disk.remove_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        self.disk.free_bytes(dir)
    }
}

/// An open file. The call that opens a second handle on it may have to wait for a descriptor.
#[derive(Debug)]
struct PatientFile {
    file: Box<dyn WriteFile>,
    disk: PatientDisk,
}

impl WriteFile for PatientFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }

    fn begin_sync(&mut self) {
        self.file.begin_sync();
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        self.disk.making(|| self.file.syncer())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::disk::LocalDisk;
    use crate::error::Error;
    use crate::simulation::{FaultOp, MemDisk};

    fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
        disk.create(path).unwrap().append(bytes).unwrap();
    }

    #[test]
    fn no_call_opens_or_changes_anything_in_the_place_of_the_locked_directory() {
        let parent = tempfile::tempdir().unwrap();
        let [dir, moved] = ["db", "moved"].map(|name| parent.path().join(name));
        let [lock, file, new] = ["LOCK", "file", "new"].map(|name| dir.join(name));
        let local = LocalDisk::default();
        let disk = PatientDisk::new(Arc::new(local.clone()), OpenFiles::new(None));
        disk.create_dir_all(&dir).unwrap();
        let guard = disk.lock(&lock).unwrap();
        write(&disk, &file, b"rows");
        disk.rename(&file, &new).unwrap();
        disk.link(&new, &file).unwrap();

        local.rename(&dir, &moved).unwrap();
        for is_replaced in [false, true] {
            if is_replaced {
                local.create_dir_all(&dir.join("folder")).unwrap();
                write(&local, &file, b"other rows");
            }
            let outside = parent.path().join("outside");
            for outcome in [
                disk.open_read(&file).map(drop),
                disk.create(&file).map(drop),
                disk.truncate(&file, 0),
                disk.remove(&file),
                disk.create_dir_all(&dir.join("new")),
                disk.sync_dir(&dir),
                disk.rename(&file, &new),
                disk.link(&file, &outside),
                disk.remove_dir(&dir.join("folder")),
            ] {
                let error = Error::io("use", &file)(outcome.unwrap_err());
                assert!(error.to_string().contains("moved or replaced"), "{error}");
                assert!(!error.is_of_file(), "{error}");
            }
        }
        assert_eq!(local.list(&dir).unwrap().len(), 2);
        assert_eq!(local.open_read(&file).unwrap().len().unwrap(), 10);
        // Paths outside of the directory are not checked.
        write(&disk, &moved.join("more"), b"rows");
        drop(guard);
        disk.lock(&lock).unwrap();
    }

    #[test]
    fn a_failed_sync_of_the_locked_directory_is_reported_to_every_later_caller() {
        let mem = MemDisk::new();
        let disk = PatientDisk::new(Arc::new(mem.clone()), OpenFiles::new(None));
        let [dir, other] = ["/db", "/other"].map(Path::new);
        for dir in [dir, other] {
            disk.create_dir_all(dir).unwrap();
        }
        let _guard = disk.lock(&dir.join("LOCK")).unwrap();
        let fail = |dir: &Path, kind| {
            mem.fail_next(FaultOp::SyncDir, 1, kind);
            assert_eq!(disk.sync_dir(dir).unwrap_err().kind(), kind);
        };
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            fail(dir, kind);
            disk.sync_dir(dir).unwrap();
        }
        fail(other, io::ErrorKind::Other);
        disk.sync_dir(dir).unwrap();
        fail(dir, io::ErrorKind::Other);
        for disk in [&disk, &disk.for_log()] {
            let error = disk.sync_dir(dir).unwrap_err();
            assert!(error.to_string().contains("another sync"), "{error}");
        }
        disk.sync_dir(other).unwrap();
    }

    #[test]
    fn a_reader_opens_no_file_in_the_place_of_the_directory_that_it_locked() {
        let parent = tempfile::tempdir().unwrap();
        let [dir, moved] = ["db", "moved"].map(|name| parent.path().join(name));
        let file = dir.join("file");
        let local = LocalDisk::default();
        local.create_dir_all(&dir).unwrap();
        write(&local, &file, b"rows");
        drop(local.lock(&dir.join("LOCK")).unwrap());
        let disk = PatientDisk::new(Arc::new(local.clone()), OpenFiles::new(None));
        let guard = disk.lock_shared(&dir.join("LOCK")).unwrap();
        disk.open_read(&file).unwrap();

        local.rename(&dir, &moved).unwrap();
        for is_replaced in [false, true] {
            if is_replaced {
                local.create_dir_all(&dir).unwrap();
                write(&local, &file, b"other rows");
            }
            let error = Error::io("open", &file)(disk.open_read(&file).unwrap_err());
            assert!(error.to_string().contains("moved or replaced"), "{error}");
        }
        drop(guard);
        disk.open_read(&file).unwrap();
    }
}
