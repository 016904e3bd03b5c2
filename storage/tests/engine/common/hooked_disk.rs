//! A disk in memory on which a test makes calls wait, or makes them fail.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use ebb_storage::simulation::MemDisk;
use ebb_storage::{FileSystem, LockGuard, LogStore, ReadFile, TableFiles, WriteFile};

/// A call that a test can hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Create,
    Open,
    SyncDir,
    ForgetCached,
    /// Any other call of the disk that changes files or names, or that locks exclusively.
    Change,
    /// A read of bytes between two offsets, the second of which is excluded.
    Read {
        from: u64,
        to: u64,
    },
}

type Hook = dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync;

/// A disk that carries out the calls on `mem`, each [`Call`] after its hook. If the hook returns an
/// error, the call fails with it.
#[derive(Clone)]
pub struct HookedDisk {
    pub mem: MemDisk,
    hook: Arc<Hook>,
}

impl HookedDisk {
    /// Creates a disk that calls `hook` before each call of the kinds in [`Call`], in the thread
    /// that makes the call. The hook gets the path of the file or directory that the call is about.
    pub fn new(
        mem: &MemDisk,
        hook: impl Fn(Call, &Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            mem: mem.clone(),
            hook: Arc::new(hook),
        }
    }
}

/// Returns whether a path is that of an SSTable.
pub fn is_sstable(path: &Path) -> bool {
    path.extension() == Some("sst".as_ref())
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookedDisk").finish_non_exhaustive()
    }
}

impl FileSystem for HookedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        (self.hook)(Call::Create, path)?;
        self.mem.create(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(Call::SyncDir, dir)?;
        self.mem.sync_dir(dir)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        (self.hook)(Call::Open, path)?;
        Ok(Arc::new(HookedFile {
            file: self.mem.open_read(path)?,
            path: path.to_path_buf(),
            hook: self.hook.clone(),
        }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        (self.hook)(Call::Change, path)?;
        self.mem.truncate(path, len)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Call::Change, path)?;
        self.mem.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.mem.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(Call::Change, dir)?;
        self.mem.create_dir_all(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.mem.exists(path)
    }
}

impl LogStore for HookedDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Call::Change, from)?;
        self.mem.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        (self.hook)(Call::Change, path)?;
        self.mem.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.mem.lock_shared(path)
    }
}

impl TableFiles for HookedDisk {
    fn link(&self, _: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Call::Change, to)?;
        Err(io::ErrorKind::Unsupported.into())
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        self.mem.free_bytes(dir)
    }
}

struct HookedFile {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    hook: Arc<Hook>,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookedFile").field(&self.path).finish()
    }
}

impl ReadFile for HookedFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (from, to) = (offset, offset + buf.len() as u64);
        (self.hook)(Call::Read { from, to }, &self.path)?;
        self.file.read_exact_at(buf, offset)
    }

    fn forget_cached(&self) -> io::Result<()> {
        (self.hook)(Call::ForgetCached, &self.path)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// Creates an empty disk on which SSTables are created only while the door is open.
pub fn held_disk() -> (HookedDisk, Arc<Door>) {
    let door = Arc::new(Door::default());
    let held = door.clone();
    let disk = HookedDisk::new(&MemDisk::new(), move |call, path| {
        if call == Call::Create && is_sstable(path) {
            held.pass();
        }
        Ok(())
    });
    (disk, door)
}

/// A door for threads, open at first. While a test keeps the door closed, each thread that
/// calls [`Door::pass`] waits.
#[derive(Debug, Default)]
pub struct Door {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    closed: bool,
    waiting: usize,
}

impl Door {
    pub fn close(&self) {
        self.inside.lock().unwrap().closed = true;
    }

    pub fn open(&self) {
        self.inside.lock().unwrap().closed = false;
        self.changed.notify_all();
    }

    /// Waits until the test opens this door; returns at once if the door is open.
    pub fn pass(&self) {
        let mut inside = self.inside.lock().unwrap();
        inside.waiting += 1;
        inside = self.changed.wait_while(inside, |door| door.closed).unwrap();
        inside.waiting -= 1;
    }

    /// Returns whether a thread waits at the door.
    pub fn is_waited_at(&self) -> bool {
        let inside = self.inside.lock().unwrap();
        inside.closed && inside.waiting > 0
    }
}
