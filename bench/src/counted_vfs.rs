//! The disk, with a count of what is written to the WAL.
//!
//! The store counts what its flushes and compactions write, but of the WAL only
//! the present size; here everything passes that goes to the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_storage::vfs::{DiskVfs, LockGuard, ReadFile, SyncFile, Vfs, WriteFile};

/// The real file system, counting what goes into WAL segments.
#[derive(Debug, Default)]
pub struct CountedVfs {
    disk: DiskVfs,
    wal: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    syncs: AtomicU64,
}

/// What went into WAL segments.
#[derive(Debug, Clone, Copy, Default)]
pub struct WalWritten {
    /// Bytes appended.
    pub bytes: u64,
    /// Times that a segment was synced.
    pub syncs: u64,
}

impl CountedVfs {
    /// What went into WAL segments so far.
    pub fn wal_written(&self) -> WalWritten {
        WalWritten {
            bytes: self.wal.bytes.load(Ordering::Relaxed),
            syncs: self.wal.syncs.load(Ordering::Relaxed),
        }
    }
}

impl Vfs for CountedVfs {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.disk.open_read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.disk.create(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("wal-") {
            return Ok(file);
        }
        let counts = self.wal.clone();
        Ok(Box::new(WalFile { file, counts }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.disk.truncate(path, len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
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
        self.disk.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock(path)
    }
}

#[derive(Debug)]
struct WalFile {
    file: Box<dyn WriteFile>,
    counts: Arc<Counts>,
}

impl WriteFile for WalFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)?;
        let bytes = bytes.len() as u64;
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        Ok(Box::new(WalSyncer {
            file: self.file.syncer()?,
            counts: self.counts.clone(),
        }))
    }
}

#[derive(Debug)]
struct WalSyncer {
    file: Box<dyn SyncFile>,
    counts: Arc<Counts>,
}

impl SyncFile for WalSyncer {
    fn sync(&self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_to_the_wal_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let vfs = CountedVfs::default();
        let mut wal = vfs.create(&dir.path().join("wal-000001.log")).unwrap();
        let mut table = vfs.create(&dir.path().join("000001.sst")).unwrap();
        wal.append(b"four").unwrap();
        wal.sync().unwrap();
        wal.syncer().unwrap().sync().unwrap();
        table.append(b"not this").unwrap();
        table.sync().unwrap();
        let written = vfs.wal_written();
        assert_eq!((written.bytes, written.syncs), (4, 2));
    }
}
