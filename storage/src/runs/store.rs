//! Where the files of a database's runs are, and which numbers they get.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Run, RunFile, RunMeta};
use crate::error::{Error, Result};
use crate::files;
use crate::key::{FileNumber, RunId};
use crate::mutation::{self, Mutation};
use crate::sstable::{BlockCache, SsTable};
use crate::sync::{AtomicU64, Ordering};
use crate::vfs::Vfs;

/// The files of the runs of one database.
#[derive(Debug)]
pub(crate) struct RunStore {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    cache: Arc<BlockCache>,
    /// Runs are cut into files of about so many bytes.
    file_bytes: u64,
    next_file: AtomicU64,
    next_run: AtomicU64,
}

impl RunStore {
    /// The files in `dir`, to be read; [`Self::number_from`] comes before any is
    /// written.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        cache: Arc<BlockCache>,
        file_bytes: u64,
    ) -> Self {
        Self {
            vfs,
            dir: dir.to_path_buf(),
            cache,
            file_bytes,
            next_file: AtomicU64::new(1),
            next_run: AtomicU64::new(1),
        }
    }

    /// Numbers what is written from now on.
    pub(crate) fn number_from(&self, file: FileNumber, run: RunId) {
        self.next_file.store(file.0, Ordering::Relaxed);
        self.next_run.store(run.0, Ordering::Relaxed);
    }

    pub(crate) fn next_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_run_id(&self) -> RunId {
        RunId(self.next_run.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn vfs(&self) -> &dyn Vfs {
        &*self.vfs
    }

    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(crate) fn path(&self, number: FileNumber) -> PathBuf {
        files::sstable(&self.dir, number)
    }

    /// Makes the names of files that were written durable; `skip` leaves it out.
    pub(crate) fn sync_names(&self, skip: Mutation) -> Result<()> {
        mutation::unless(skip, || self.vfs.sync_dir(&self.dir))
            .map_err(Error::io("sync", &self.dir))
    }

    /// Removes a file. One that cannot be removed now is an orphan, which the next
    /// opening removes.
    pub(crate) fn remove(&self, number: FileNumber) {
        let _ = self.vfs.remove(&self.path(number));
    }

    /// Opens one file.
    pub(crate) fn open_file(&self, number: FileNumber) -> Result<Arc<RunFile>> {
        let path = self.path(number);
        let table = SsTable::open(&*self.vfs, &path, number.0, self.cache.clone())?;
        Ok(RunFile::new(table, path, self.vfs.clone()))
    }

    /// Opens the files of a run.
    pub(crate) fn open_run(&self, meta: &RunMeta) -> Result<Arc<Run>> {
        let files = meta.files.iter().map(|&number| self.open_file(number));
        Ok(Run::new(meta.clone(), files.collect::<Result<_>>()?))
    }
}
