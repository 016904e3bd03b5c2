//! A disk that keeps SSTables out of the page cache. The block cache is then the only memory for
//! data, as on a machine that has no more memory.
//!
//! After each read the kernel is advised to drop the pages that were read, and after each sync of a
//! new SSTable the pages that were written. The kernel still reads ahead of sequential readers, so
//! merges and scans are as fast as the disk; pages that were read ahead are dropped after their
//! use.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_storage::{
    FileSystem, LocalDisk, LockGuard, LogStore, ReadFile, SyncFile, TableFiles, WriteFile,
};
use rustix::fs::{Advice, fadvise};

/// The local disk, with the page cache kept free of SSTables.
#[derive(Debug, Clone, Default)]
pub struct UncachedDisk;

/// The size of a page of the page cache, in bytes: the kernel drops only whole pages.
const PAGE_BYTES: u64 = 4096;

impl FileSystem for UncachedDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let inner = LocalDisk::default().open_read(path)?;
        if !is_sstable(path) {
            return Ok(inner);
        }
        let file = File::open(path)?;
        forget(&file, 0, None)?;
        Ok(Arc::new(UncachedReads { inner, file }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inner = LocalDisk::default().create(path)?;
        if !is_sstable(path) {
            return Ok(inner);
        }
        let file = File::open(path)?;
        Ok(Box::new(UncachedWrites { inner, file }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        LocalDisk::default().truncate(path, len)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalDisk::default().remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        LocalDisk::default().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        LocalDisk::default().create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        LocalDisk::default().sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        LocalDisk::default().exists(path)
    }
}

impl LogStore for UncachedDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk::default().rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        LocalDisk::default().lock(path)
    }
}

impl TableFiles for UncachedDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk::default().link(from, to)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        LocalDisk::default().remove_dir(dir)
    }
}

#[derive(Debug)]
struct UncachedReads {
    inner: Arc<dyn ReadFile>,
    /// Another handle of the file, to give the kernel advice.
    file: File,
}

impl ReadFile for UncachedReads {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset)?;
        forget(&self.file, offset, NonZeroU64::new(buf.len() as u64))
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

#[derive(Debug)]
struct UncachedWrites {
    inner: Box<dyn WriteFile>,
    file: File,
}

impl WriteFile for UncachedWrites {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()?;
        // The kernel drops only pages that have been written to the disk.
        forget(&self.file, 0, None)
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        self.inner.syncer()
    }
}

fn is_sstable(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

/// Drops the pages of a range from the page cache. Without a length, the range extends to the end
/// of the file.
fn forget(file: &File, offset: u64, len: Option<NonZeroU64>) -> io::Result<()> {
    let (offset, len) = whole_pages(offset, len);
    Ok(fadvise(file, offset, len, Advice::DontNeed)?)
}

/// Extends a range to whole pages: the kernel keeps pages that the range covers only in part.
fn whole_pages(offset: u64, len: Option<NonZeroU64>) -> (u64, Option<NonZeroU64>) {
    let start = offset - offset % PAGE_BYTES;
    let end = len.map(|len| (offset + len.get()).next_multiple_of(PAGE_BYTES));
    (start, end.and_then(|end| NonZeroU64::new(end - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_extended_to_whole_pages() {
        let pages = |offset, len| {
            let (offset, len) = whole_pages(offset, NonZeroU64::new(len));
            (offset, len.map(NonZeroU64::get))
        };
        assert_eq!(pages(0, 4096), (0, Some(4096)));
        assert_eq!(pages(4095, 2), (0, Some(8192)));
        assert_eq!(pages(5000, 1), (4096, Some(4096)));
        assert_eq!(pages(8192, 0), (8192, None), "to the end");
    }

    #[test]
    fn a_database_works_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let options = ebb_storage::Options {
            disk: Arc::new(UncachedDisk),
            cache_bytes: 0,
            ..Default::default()
        };
        let db = ebb_storage::Db::open(dir.path(), options).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let table = keyspace.table("t", Default::default()).unwrap();
        for number in 0..1000u32 {
            table.put(&number.to_be_bytes(), &[1; 100]).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(table.range::<&[u8], _>(..).count(), 1000);
        assert_eq!(
            table.get(&7u32.to_be_bytes()).unwrap().unwrap(),
            [1; 100][..]
        );
        assert!(db.stats().blocks_read > 0);
    }
}
