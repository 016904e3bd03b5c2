//! A disk of a process with a limit of open files.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebb_storage::simulation::MemDisk;
use ebb_storage::{FileSystem, LockGuard, LogStore, ReadFile, SyncFile, TableFiles, WriteFile};

/// The error of a process that may open no more files.
pub const EMFILE: i32 = 24;
/// The error of a call for which the system has no memory.
pub const ENOMEM: i32 = 12;

/// A disk that passes calls on to `mem`. A call that needs a descriptor fails if as many files are
/// open as the limit allows: with `EMFILE`, unless the test chooses another error.
#[derive(Clone)]
pub struct LimitedDisk {
    pub mem: MemDisk,
    descriptors: Arc<Descriptors>,
}

#[derive(Debug)]
struct Descriptors {
    max: AtomicUsize,
    /// The number of the error of a refused call.
    error: i32,
    open: AtomicUsize,
    refused: AtomicUsize,
}

/// A descriptor, which counts as used until this value is dropped.
#[derive(Debug)]
struct Descriptor(Arc<Descriptors>);

impl LimitedDisk {
    pub fn new(mem: &MemDisk, max: usize) -> Self {
        Self::failing_with(mem, max, EMFILE)
    }

    /// Creates a disk whose calls fail with the error of this number.
    pub fn failing_with(mem: &MemDisk, max: usize, error: i32) -> Self {
        let descriptors = Descriptors {
            max: AtomicUsize::new(max),
            error,
            open: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        };
        Self {
            mem: mem.clone(),
            descriptors: Arc::new(descriptors),
        }
    }

    /// Sets the limit of open files.
    pub fn set_max(&self, max: usize) {
        self.descriptors.max.store(max, Ordering::Relaxed);
    }

    /// Returns the number of open files.
    pub fn open(&self) -> usize {
        self.descriptors.open.load(Ordering::Relaxed)
    }

    /// Returns the number of descriptors that were refused.
    pub fn refused(&self) -> usize {
        self.descriptors.refused.load(Ordering::Relaxed)
    }

    fn take(&self) -> io::Result<Descriptor> {
        let taken = self.descriptors.clone();
        let max = taken.max.load(Ordering::Relaxed);
        let one_more = |open: usize| (open < max).then_some(open + 1);
        let (order, open) = (Ordering::Relaxed, &taken.open);
        if open.fetch_update(order, order, one_more).is_err() {
            taken.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::from_raw_os_error(taken.error));
        }
        Ok(Descriptor(taken))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open file or lock with its descriptor.
#[derive(Debug)]
struct WithDescriptor<T> {
    inner: T,
    descriptor: Descriptor,
}

impl ReadFile for WithDescriptor<Arc<dyn ReadFile>> {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

impl WriteFile for WithDescriptor<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        let disk = LimitedDisk {
            mem: MemDisk::new(),
            descriptors: self.descriptor.0.clone(),
        };
        let descriptor = disk.take()?;
        let inner = self.inner.syncer()?;
        Ok(Box::new(WithDescriptor { inner, descriptor }))
    }
}

impl SyncFile for WithDescriptor<Box<dyn SyncFile>> {
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl LockGuard for WithDescriptor<Box<dyn LockGuard>> {}

impl Debug for LimitedDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedDisk").finish_non_exhaustive()
    }
}

impl FileSystem for LimitedDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let descriptor = self.take()?;
        let inner = self.mem.open_read(path)?;
        Ok(Arc::new(WithDescriptor { inner, descriptor }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let descriptor = self.take()?;
        let inner = self.mem.create(path)?;
        Ok(Box::new(WithDescriptor { inner, descriptor }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let _descriptor = self.take()?;
        self.mem.truncate(path, len)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.mem.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let _descriptor = self.take()?;
        self.mem.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let _descriptor = self.take()?;
        self.mem.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let _descriptor = self.take()?;
        self.mem.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.mem.exists(path)
    }
}

impl LogStore for LimitedDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.mem.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let descriptor = self.take()?;
        let inner = self.mem.lock(path)?;
        Ok(Box::new(WithDescriptor { inner, descriptor }))
    }
}

impl TableFiles for LimitedDisk {}
