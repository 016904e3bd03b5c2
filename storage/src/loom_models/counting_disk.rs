//! A disk that counts the bytes that are appended and synced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::atomic::AtomicBool;

use crate::file_system::{FileSystem, ReadFile, SyncFile, WriteFile};
use crate::key::FileNumber;
use crate::log_store::{LockGuard, LogStore};
use crate::wal::{Lsn, Wal};

/// A disk for the log that stores no bytes, and counts for each file those that are appended and
/// those that are synced.
#[derive(Debug, Default, Clone)]
pub(super) struct CountingDisk {
    files: Arc<std::sync::Mutex<Vec<(PathBuf, Arc<CountingFile>)>>>,
    /// Whether syncs and truncations return success without any effect.
    pub(super) lies: bool,
    /// While the flag is true, an append of more than this number of bytes fails for lack of space,
    /// after half of the bytes were appended.
    pub(super) full: Option<(usize, Arc<AtomicBool>)>,
}

#[derive(Debug, Default)]
pub(super) struct CountingFile {
    pub(super) appended: AtomicU64,
    pub(super) synced: AtomicU64,
    lies: bool,
    full: Option<(usize, Arc<AtomicBool>)>,
}

pub(super) const SEGMENT_HEADER_BYTES: u64 = 32;

impl CountingDisk {
    /// Returns the sum of one counter (`of`) over all files, which are log segments, without the
    /// bytes of the segments' headers.
    pub(super) fn total(&self, of: impl Fn(&CountingFile) -> &AtomicU64) -> u64 {
        let files = self.files.lock().unwrap().clone();
        let bytes = files
            .iter()
            .map(|(_, file)| of(file).load(Ordering::Relaxed));
        bytes
            .map(|bytes| bytes.saturating_sub(SEGMENT_HEADER_BYTES))
            .sum()
    }
}

/// An open file, to be appended to and synced.
#[derive(Debug)]
struct Handle(Arc<CountingFile>);

impl WriteFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        if let Some((bytes_max, full)) = &self.0.full
            && bytes.len() > *bytes_max
            && full.load(Ordering::Relaxed)
        {
            self.0.appended.fetch_add(len / 2, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.appended.fetch_add(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        SyncFile::sync(self)
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        Ok(Box::new(Handle(self.0.clone())))
    }
}

impl SyncFile for Handle {
    fn sync(&self) -> io::Result<()> {
        if !self.0.lies {
            let appended = self.0.appended.load(Ordering::Relaxed);
            self.0.synced.fetch_max(appended, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl FileSystem for CountingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = Arc::new(CountingFile {
            lies: self.lies,
            full: self.full.clone(),
            ..CountingFile::default()
        });
        let mut files = self.files.lock().unwrap();
        files.push((path.to_path_buf(), file.clone()));
        drop(files);
        Ok(Box::new(Handle(file)))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_read(&self, _: &Path) -> io::Result<Arc<dyn ReadFile>> {
        unreachable!("a log being written is not read")
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let files = self.files.lock().unwrap().clone();
        let (_, file) = files.iter().find(|(at, _)| at == path).unwrap();
        if !self.lies {
            file.appended.store(len, Ordering::Relaxed);
            file.synced.store(len, Ordering::Relaxed);
        }
        Ok(())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        unreachable!()
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        unreachable!()
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        unreachable!()
    }

    fn exists(&self, _: &Path) -> io::Result<bool> {
        unreachable!()
    }
}

impl LogStore for CountingDisk {
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unreachable!()
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn LockGuard>> {
        unreachable!()
    }
}

/// Creates an empty log on `disk`. A segment that has reached `segment_bytes_max` bytes takes no more
/// records.
pub(super) fn log(disk: &CountingDisk, segment_bytes_max: u64) -> Wal {
    let log_store: Arc<dyn LogStore> = Arc::new(disk.clone());
    let (dir, next) = (Path::new("/db"), FileNumber(1));
    Wal::new(log_store, dir, segment_bytes_max, Vec::new(), next, Lsn(0))
}
