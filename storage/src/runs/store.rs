//! Where the files of a database's runs are, and which numbers they get.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Run, RunFile, RunMeta};
use crate::error::{Error, Result};
use crate::files;
use crate::key::{FileNumber, RunId};
use crate::mutation::{self, Mutation};
use crate::sstable::{BlockCache, SsTable};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::vfs::Vfs;

/// The files of the runs of one database.
#[derive(Debug)]
pub(crate) struct RunStore {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    cache: Arc<BlockCache>,
    /// Runs are cut into files of about so many bytes.
    file_bytes: u64,
    numbers: Mutex<Numbers>,
    next_run: AtomicU64,
}

/// Those of files. None is used twice, whatever a crash forgets: only those below a
/// bound are used that is durable.
#[derive(Debug)]
struct Numbers {
    next: FileNumber,
    below: FileNumber,
}

/// So many numbers are reserved at once: one sync of the manifest serves them all.
const RESERVED_AT_ONCE: u64 = 256;

/// Gives out the numbers of new files.
pub(crate) trait FileNumbers {
    /// A number that no file of the database ever had.
    fn next_file_number(&self) -> Result<FileNumber>;
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
            numbers: Mutex::new(Numbers {
                next: FileNumber::default(),
                below: FileNumber::default(),
            }),
            next_run: AtomicU64::new(1),
        }
    }

    /// Numbers what is written from now on: files from `next` on, with those below
    /// `below` reserved already.
    pub(crate) fn number_from(&self, next: FileNumber, below: FileNumber, run: RunId) {
        *self.numbers.lock().unwrap() = Numbers { next, below };
        self.next_run.store(run.0, Ordering::Relaxed);
    }

    /// The next number of a file. Where none is reserved any more, `reserve` makes a
    /// bound durable first.
    pub(crate) fn next_file_number(
        &self,
        reserve: impl FnOnce(FileNumber) -> Result<()>,
    ) -> Result<FileNumber> {
        let mut numbers = self.numbers.lock().unwrap();
        if numbers.next >= numbers.below {
            let below = FileNumber(numbers.next.0 + RESERVED_AT_ONCE);
            reserve(below)?;
            numbers.below = below;
        }
        let number = numbers.next;
        numbers.next = number.next();
        Ok(number)
    }

    /// The number from which on none was given out yet.
    pub(crate) fn files_below(&self) -> FileNumber {
        self.numbers.lock().unwrap().next
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
