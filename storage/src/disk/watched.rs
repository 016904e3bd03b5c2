//! A disk that notes its calls while they are under way, and the watch that finds those that hang.
//!
//! ```text
//!   WatchedDisk ── begin, end of each call ─> DiskCalls <── looks every second ── DiskWatch
//! ```
//!
//! Reads, appends and fsyncs are noted. Other calls are not: on a healthy disk the removal of a
//! large file may take as long.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Disk;
use super::calls::{DiskCalls, NotedFile};
use super::stuck::{DiskCall, Looks, StuckCall, StuckChange};
use crate::file_system::{FileSystem, ReadFile, SyncFile, WriteFile};
use crate::log_store::{LockGuard, LogStore};
use crate::table_store::TableFiles;

/// The interval at which a [`DiskWatch`] looks at the calls to the disk that are under way, to find
/// those that hang.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Finds the calls to the disk that hang.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    calls: Arc<DiskCalls>,
    looks: Mutex<Looks>,
}

impl DiskWatch {
    pub(crate) fn new(calls: Arc<DiskCalls>) -> Self {
        Self {
            calls,
            looks: Mutex::default(),
        }
    }

    /// Looks at the calls under way. Returns the calls that have become stuck since the last look, and
    /// the stuck calls that have returned since. `now` is the time since a fixed moment, the same for
    /// all looks.
    pub(crate) fn look(&self, now: Duration) -> Vec<StuckChange> {
        let mut looks = self.looks.lock().unwrap();
        looks.look(now, self.calls.under_way(), |note| self.calls.path(note))
    }

    /// Returns whether any call was under way at the last look.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn has_calls(&self) -> bool {
        self.looks.lock().unwrap().has_calls()
    }

    /// Returns the calls that were stuck when they were last looked at, the longest first.
    pub(crate) fn stuck(&self) -> Vec<StuckCall> {
        self.looks.lock().unwrap().stuck()
    }
}

/// A disk that records each read, append, truncation and fsync in a table while the call is under
/// way, so that a [`DiskWatch`] can find calls that hang.
#[derive(Debug)]
pub(crate) struct WatchedDisk {
    disk: Arc<dyn Disk>,
    calls: Arc<DiskCalls>,
}

impl WatchedDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, calls: Arc<DiskCalls>) -> Self {
        Self { disk, calls }
    }

    fn watched<F>(&self, file: F, path: &Path) -> WatchedFile<F> {
        WatchedFile {
            file,
            noted: Arc::new(self.calls.file(path)),
        }
    }
}

impl FileSystem for WatchedDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let file = self.disk.open_read(path)?;
        Ok(Arc::new(self.watched(file, path)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.disk.create(path)?;
        Ok(Box::new(self.watched(file, path)))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = self.calls.file(path);
        file.noted(DiskCall::Sync, || self.disk.truncate(path, len))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let file = self.calls.file(dir);
        file.noted(DiskCall::Sync, || self.disk.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
}

impl LogStore for WatchedDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock_shared(path)
    }
}

impl TableFiles for WatchedDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        self.disk.free_bytes(dir)
    }
}

/// An open file of a [`WatchedDisk`], which records each read, append and fsync while the call is
/// under way. `noted` registers the path of the file for these records; the handles that only sync
/// the file ([`WriteFile::syncer`]) share `noted`.
#[derive(Debug)]
struct WatchedFile<F> {
    file: F,
    noted: Arc<NotedFile>,
}

impl ReadFile for WatchedFile<Arc<dyn ReadFile>> {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = || self.file.read_exact_at(buf, offset);
        self.noted.noted(DiskCall::Read, read)
    }

    fn read_once_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = || self.file.read_once_exact_at(buf, offset);
        self.noted.noted(DiskCall::Read, read)
    }

    fn forget_cached(&self) -> io::Result<()> {
        self.file.forget_cached()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl WriteFile for WatchedFile<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let append = || self.file.append(bytes);
        self.noted.noted(DiskCall::Write, append)
    }

    fn begin_sync(&mut self) {
        self.noted.noted(DiskCall::Write, || self.file.begin_sync());
    }

    fn sync(&mut self) -> io::Result<()> {
        let sync = || self.file.sync();
        self.noted.noted(DiskCall::Sync, sync)
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        Ok(Box::new(WatchedFile {
            file: self.file.syncer()?,
            noted: self.noted.clone(),
        }))
    }
}

impl SyncFile for WatchedFile<Box<dyn SyncFile>> {
    fn sync(&self) -> io::Result<()> {
        self.noted.noted(DiskCall::Sync, || self.file.sync())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::thread;

    use ebb_test_support::wait::until;

    use super::*;
    use crate::simulation::MemDisk;

    const SECOND: Duration = Duration::from_secs(1);

    /// Makes a call on a disk that hangs until the watch has looked. Checks that the watch reports the call
    /// as stuck, with the kind `call` and this path, and then as returned.
    fn assert_found(
        call: DiskCall,
        path: &str,
        make: impl FnOnce(&WatchedDisk) -> io::Result<()> + Send,
        (mem, disk): (&MemDisk, &WatchedDisk),
    ) {
        let watch = DiskWatch::new(disk.calls.clone());
        let hang = mem.hang();
        let stuck = |lasts| StuckCall {
            path: path.into(),
            call,
            lasts,
        };
        thread::scope(|scope| {
            let caller = scope.spawn(|| make(disk));
            until("the call to begin", || disk.calls.under_way().count() == 1);
            assert_eq!(
                (watch.look(SECOND), watch.look(5 * SECOND)),
                (vec![], vec![])
            );
            let changes = watch.look(7 * SECOND);
            assert_eq!(changes, [StuckChange::Stuck(stuck(6 * SECOND))]);
            assert_eq!(watch.stuck(), [stuck(6 * SECOND)]);
            drop(hang);
            caller.join().unwrap().unwrap();
        });
        let changes = watch.look(9 * SECOND);
        assert_eq!(changes, [StuckChange::Returned(stuck(8 * SECOND))]);
        assert_eq!(watch.stuck(), []);
    }

    #[test]
    fn reads_writes_and_fsyncs_that_hang_are_found() {
        let mem = MemDisk::new();
        let disk = WatchedDisk::new(Arc::new(mem.clone()), DiskCalls::new());
        let disks = (&mem, &disk);
        disk.create_dir_all("/db".as_ref()).unwrap();
        let mut writer = disk.create("/db/f".as_ref()).unwrap();
        writer.append(b"rows").unwrap();
        let (reader, syncer) = (disk.open_read("/db/f".as_ref()).unwrap(), writer.syncer());
        let syncer = syncer.unwrap();

        let read = |_: &WatchedDisk| reader.read_exact_at(&mut [0; 2], 1);
        assert_found(DiskCall::Read, "/db/f", read, disks);
        let read_once = |_: &WatchedDisk| reader.read_once_exact_at(&mut [0; 2], 1);
        assert_found(DiskCall::Read, "/db/f", read_once, disks);
        assert_found(
            DiskCall::Write,
            "/db/f",
            |_: &WatchedDisk| writer.append(b"more"),
            disks,
        );
        assert_found(
            DiskCall::Sync,
            "/db/f",
            |_: &WatchedDisk| writer.sync(),
            disks,
        );
        assert_found(
            DiskCall::Sync,
            "/db/f",
            |_: &WatchedDisk| syncer.sync(),
            disks,
        );
        let truncate = |disk: &WatchedDisk| disk.truncate("/db/f".as_ref(), 2);
        assert_found(DiskCall::Sync, "/db/f", truncate, disks);
        let sync_dir = |disk: &WatchedDisk| disk.sync_dir("/db".as_ref());
        assert_found(DiskCall::Sync, "/db", sync_dir, disks);
    }
}
