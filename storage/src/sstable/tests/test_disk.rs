//! The part of a disk that tables need: files in memory that a test can damage.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::file_system::{FileSystem, ReadFile, SyncFile, WriteFile};

type Files = Arc<Mutex<BTreeMap<PathBuf, Arc<Vec<u8>>>>>;

/// Offset and length of each read.
type Reads = Arc<Mutex<Vec<(u64, usize)>>>;

/// A disk in memory, which records the reads; clones share the files and the records.
#[derive(Debug, Clone, Default)]
pub(super) struct TestDisk {
    files: Files,
    reads: Reads,
    /// The number of calls of `read_once_exact_at`.
    once: Arc<AtomicUsize>,
}

impl TestDisk {
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Vec<u8> {
        self.files.lock().unwrap()[path.as_ref()].to_vec()
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, bytes: Vec<u8>) {
        let path = path.as_ref().to_path_buf();
        self.files.lock().unwrap().insert(path, Arc::new(bytes));
    }

    /// Returns the offset and length of each read since the last call.
    pub(super) fn take_reads(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// Returns the number of calls of `read_once_exact_at` since the last call of this.
    pub(super) fn take_reads_once(&self) -> usize {
        self.once.swap(0, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Appender {
    path: PathBuf,
    files: Files,
}

#[derive(Debug)]
struct Reader {
    path: PathBuf,
    files: Files,
    reads: Reads,
    once: Arc<AtomicUsize>,
}

impl Reader {
    /// Returns the file's current bytes: a test may damage a file that is open.
    fn bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.files.lock().unwrap()[&self.path])
    }
}

impl ReadFile for Reader {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.reads.lock().unwrap().push((offset, buf.len()));
        let start = offset as usize;
        let bytes = self.bytes();
        let found = bytes.get(start..start + buf.len());
        buf.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn read_once_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.once.fetch_add(1, Ordering::Relaxed);
        self.read_exact_at(buf, offset)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes().len() as u64)
    }
}

impl WriteFile for Appender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut files = self.files.lock().unwrap();
        let file = files.get_mut(&self.path).ok_or(ErrorKind::NotFound)?;
        Arc::make_mut(file).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl FileSystem for TestDisk {
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        if !self.exists(path)? {
            return Err(ErrorKind::NotFound.into());
        }
        let path = path.to_path_buf();
        let files = Arc::clone(&self.files);
        let reads = Arc::clone(&self.reads);
        Ok(Arc::new(Reader {
            path,
            files,
            reads,
            once: Arc::clone(&self.once),
        }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.write(path, Vec::new());
        let path = path.to_path_buf();
        let files = Arc::clone(&self.files);
        Ok(Box::new(Appender { path, files }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.files.lock().unwrap().contains_key(path))
    }

    fn truncate(&self, _: &Path, _: u64) -> Result<()> {
        Err(not_for_tables())
    }

    fn remove(&self, _: &Path) -> Result<()> {
        Err(not_for_tables())
    }

    fn list(&self, _: &Path) -> Result<Vec<PathBuf>> {
        Err(not_for_tables())
    }

    fn create_dir_all(&self, _: &Path) -> Result<()> {
        Err(not_for_tables())
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Err(not_for_tables())
    }
}

fn not_for_tables() -> Error {
    Error::new(ErrorKind::Unsupported, "no business of an SSTable")
}
