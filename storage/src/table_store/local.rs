//! Tables as files of a directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Imported, TableStore};
use crate::error::{Error, Result};
use crate::file_system::{ReadFile, WriteFile};
use crate::files::{self, FileKind};
use crate::key::FileNumber;
use crate::table_store::{TableFiles, link_or_copy};

/// The prefix of the locators of directories.
const SCHEME: &str = "file:";

/// A table store that keeps each SSTable in a file `NUMBER.sst` of a directory.
#[derive(Debug)]
pub struct LocalTables {
    disk: Arc<dyn TableFiles>,
    dir: PathBuf,
}

impl LocalTables {
    /// Creates a store in the directory `dir` of `disk`.
    pub fn new(disk: Arc<dyn TableFiles>, dir: impl Into<PathBuf>) -> Self {
        Self {
            disk,
            dir: dir.into(),
        }
    }

    /// Returns the directory of the [`LocalTables`] with this locator; `None` if the locator is of
    /// another kind of store.
    pub(crate) fn dir_of(locator: &str) -> Option<&Path> {
        locator.strip_prefix(SCHEME).map(Path::new)
    }

    fn path(&self, number: u64) -> PathBuf {
        files::sstable(&self.dir, FileNumber(number))
    }
}

impl TableStore for LocalTables {
    fn locator(&self) -> io::Result<String> {
        let dir = std::path::absolute(&self.dir)?;
        match dir.to_str() {
            Some(dir) => Ok(format!("{SCHEME}{dir}")),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a path that is not Unicode cannot be told",
            )),
        }
    }

    fn name(&self, number: u64) -> PathBuf {
        self.path(number)
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn WriteFile>> {
        self.disk.create(&self.path(number))
    }

    fn import(&self, from: &Path, bytes: u64, number: u64) -> Result<Imported> {
        let to = self.path(number);
        let imported = link_or_copy(&*self.disk, from, &to, bytes)?;
        if imported == Imported::Copied {
            return Ok(imported);
        }
        // Nothing is cut off: the call syncs the bytes, which another process may have written. A
        // sync that finds no space stays an I/O error, because `DiskFull` invites a retry: the next
        // sync of this file would succeed without the pages that the first one dropped.
        self.disk
            .truncate(&to, bytes)
            .map_err(Error::io("sync", &to))?;
        Ok(imported)
    }

    fn finish(&self) -> io::Result<()> {
        self.disk.sync_dir(&self.dir)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn ReadFile>> {
        self.disk.open_read(&self.path(number))
    }

    fn list(&self) -> io::Result<Vec<u64>> {
        let number = |path: &PathBuf| match FileKind::of(path) {
            Some(FileKind::SsTable(number)) => Some(number.0),
            _ => None,
        };
        Ok(self
            .disk
            .list(&self.dir)?
            .iter()
            .filter_map(number)
            .collect())
    }

    fn delete(&self, number: u64) -> io::Result<()> {
        self.disk.remove(&self.path(number))
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.disk.free_bytes(&self.dir)
    }

    fn local_file(&self, number: u64) -> Option<PathBuf> {
        Some(self.path(number))
    }
}
