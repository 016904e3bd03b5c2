//! An in-memory disk for shuttle: the scheduler may switch threads before each I/O call.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{FileSystem, LockGuard, LogStore, ReadFile, SyncFile, TableFiles, WriteFile};
use shuttle::sync::atomic::{AtomicBool, Ordering};

/// A [`MemDisk`] that lets the scheduler switch threads before each call on the disk.
#[derive(Debug, Clone)]
pub(crate) struct SwitchingDisk {
    disk: MemDisk,
    switch: Arc<AtomicBool>,
}

/// An open file of the disk, which also lets the scheduler switch threads before each read, append
/// and sync.
#[derive(Debug)]
struct Open<T> {
    file: T,
    switch: Arc<AtomicBool>,
}

impl SwitchingDisk {
    pub(crate) fn new(disk: &MemDisk) -> Self {
        Self {
            disk: disk.clone(),
            switch: Arc::default(),
        }
    }

    fn open<T>(&self, file: T) -> Open<T> {
        let switch = self.switch.clone();
        Open { file, switch }
    }
}

/// Lets shuttle's scheduler switch threads. It may do so at any operation on an atomic or a lock of
/// shuttle, so a load of `point`, whose value is not used, is enough.
fn switch(point: &AtomicBool) {
    point.load(Ordering::Relaxed);
}

impl FileSystem for SwitchingDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        switch(&self.switch);
        Ok(Arc::new(self.open(self.disk.open_read(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        switch(&self.switch);
        Ok(Box::new(self.open(self.disk.create(path)?)))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        switch(&self.switch);
        self.disk.truncate(path, len)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        switch(&self.switch);
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        switch(&self.switch);
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        switch(&self.switch);
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        switch(&self.switch);
        self.disk.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        switch(&self.switch);
        self.disk.exists(path)
    }
}

impl LogStore for SwitchingDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        switch(&self.switch);
        self.disk.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        switch(&self.switch);
        self.disk.lock(path)
    }
}

impl TableFiles for SwitchingDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        switch(&self.switch);
        self.disk.link(from, to)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        switch(&self.switch);
        self.disk.remove_dir(dir)
    }
}

impl ReadFile for Open<Arc<dyn ReadFile>> {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        switch(&self.switch);
        self.file.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl WriteFile for Open<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        switch(&self.switch);
        self.file.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        switch(&self.switch);
        self.file.sync()
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        let file = self.file.syncer()?;
        let switch = self.switch.clone();
        Ok(Box::new(Open { file, switch }))
    }
}

impl SyncFile for Open<Box<dyn SyncFile>> {
    fn sync(&self) -> io::Result<()> {
        switch(&self.switch);
        self.file.sync()
    }
}
