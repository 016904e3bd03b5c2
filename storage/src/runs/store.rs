//! Where the files of a database's runs are, and which numbers they get.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Run, RunFile, RunMeta};
use crate::error::{Error, Result};
use crate::key::{FileNumber, RunId};
use crate::mutation::{self, Mutation};
use crate::sstable::{BlockCache, SsTable};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::table_store::TableStore;

/// The files of the runs of one database.
#[derive(Debug)]
pub(crate) struct RunStore {
    tables: Arc<dyn TableStore>,
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
    /// The files in `tables`, to be read; [`Self::number_from`] comes before any is
    /// written.
    pub(crate) fn new(
        tables: Arc<dyn TableStore>,
        cache: Arc<BlockCache>,
        file_bytes: u64,
    ) -> Self {
        Self {
            tables,
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

    pub(crate) fn tables(&self) -> &dyn TableStore {
        &*self.tables
    }

    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// What errors call a file.
    pub(crate) fn name(&self, number: FileNumber) -> PathBuf {
        self.tables.name(number.0)
    }

    /// Makes the names of files durable that were written, `last` among them; `skip`
    /// leaves it out.
    pub(crate) fn finish(&self, last: FileNumber, skip: Mutation) -> Result<()> {
        mutation::unless(skip, || self.tables.finish()).map_err(Error::io("sync", &self.name(last)))
    }

    /// Removes a file. One that cannot be removed now is an orphan, which the next
    /// opening removes.
    pub(crate) fn remove(&self, number: FileNumber) {
        let _ = self.tables.delete(number.0);
    }

    /// Opens one file.
    pub(crate) fn open_file(&self, number: FileNumber) -> Result<Arc<RunFile>> {
        let table = self.open_table(number)?;
        Ok(RunFile::new(table, number, self.tables.clone()))
    }

    /// Opens one file by itself.
    pub(crate) fn open_table(&self, number: FileNumber) -> Result<Arc<SsTable>> {
        let name = self.name(number);
        let file = self
            .tables
            .open(number.0)
            .map_err(Error::io("open", &name))?;
        SsTable::read(file, &name, number.0, self.cache.clone())
    }

    /// Opens the files of a run.
    pub(crate) fn open_run(&self, meta: &RunMeta) -> Result<Arc<Run>> {
        let files = meta.files.iter().map(|&number| self.open_file(number));
        Ok(Run::new(meta.clone(), files.collect::<Result<_>>()?))
    }
}
