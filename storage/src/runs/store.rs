//! The storage of a database's runs: their files and the numbers of new files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::{FileMeta, Quarantine, Run, RunFile, RunMeta};
use crate::error::{Error, Result};
use crate::file_system::ReadFile;
use crate::key::{FileNumber, RunId};
use crate::mutation::{self, Mutation};
use crate::sstable::{BlockCache, FileId, Salvage, SsTable};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::table_store::{OpenFiles, TableStore};

/// The files of the runs of one database.
#[derive(Debug)]
pub(crate) struct RunStore {
    tables: Arc<dyn TableStore>,
    open_files: Arc<OpenFiles>,
    cache: Arc<BlockCache>,
    /// The size in bytes of the files of a run: a larger run is cut into several files.
    file_bytes: u64,
    numbers: Mutex<Numbers>,
    next_run: AtomicU64,
}

/// The next file numbers. No number is used twice, even after a crash: only numbers below a
/// durable bound are used.
#[derive(Debug, Default)]
struct Numbers {
    next: FileNumber,
    below: FileNumber,
}

/// The number of file numbers that one edit of the manifest reserves: the edit is synced once for
/// all of them.
const RESERVED_AT_ONCE: u64 = 256;

/// Gives out the numbers of new files.
pub(crate) trait FileNumbers {
    /// Returns a number that no file of the database ever had.
    fn next_file_number(&self) -> Result<FileNumber>;
}

impl RunStore {
    /// Creates a store of the files in `tables`. The caller may read them at once, but has to call
    /// [`Self::number_from`] before it writes any.
    pub(crate) fn new(
        tables: Arc<dyn TableStore>,
        open_files: Arc<OpenFiles>,
        cache: Arc<BlockCache>,
        file_bytes: u64,
    ) -> Self {
        Self {
            tables,
            open_files,
            cache,
            file_bytes,
            numbers: Mutex::default(),
            next_run: AtomicU64::new(1),
        }
    }

    /// Sets the numbers of new files and runs: files get the numbers from `next` on (those below
    /// `below` are reserved already), and runs get the numbers from `run` on.
    pub(crate) fn number_from(&self, next: FileNumber, below: FileNumber, run: RunId) {
        *self.numbers.lock().unwrap() = Numbers { next, below };
        self.next_run.store(run.0, Ordering::Relaxed);
    }

    /// Returns the next number of a file. If no reserved number is left, `reserve` makes a
    /// higher bound durable first.
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

    /// Returns the number of the next new file: all files so far have smaller numbers.
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

    /// Returns the name of a file for errors.
    pub(crate) fn name(&self, number: FileNumber) -> PathBuf {
        self.tables.name(number.0)
    }

    /// Makes the names of all files written so far durable. `last` is one of these files, which
    /// errors name. The sync is left out if the mutation `skip` is on, in mutation tests.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`]. Nothing relies on the files yet, and the caller removes
    /// them. A full disk does not lose the names of other files: see
    /// [`FileSystem::sync_dir`](crate::FileSystem::sync_dir).
    pub(crate) fn finish(&self, last: FileNumber, skip: Mutation) -> Result<()> {
        let finished = mutation::unless(skip, || self.tables.finish());
        finished.map_err(Error::no_space_or_io("sync", &self.name(last)))
    }

    /// Makes the names of the files of all these runs durable, with one sync.
    pub(crate) fn finish_runs<'a>(
        &self,
        runs: impl IntoIterator<Item = &'a Arc<Run>>,
    ) -> Result<()> {
        let files = runs.into_iter().flat_map(|run| &run.meta().files);
        match files.last() {
            Some(last) => self.finish(last.number, Mutation::TableWithoutDirSync),
            None => Ok(()),
        }
    }

    /// Removes a file. A file that cannot be removed now is an orphan, which the next opening
    /// removes.
    pub(crate) fn remove(&self, number: FileNumber) {
        let _ = self.tables.delete(number.0);
    }

    /// Returns whether a file does not exist. A file that fails to open for any other reason counts as
    /// existing.
    pub(crate) fn is_missing(&self, number: FileNumber) -> bool {
        let opened = self.tables.open(number.0);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Opens a file that was just written, and returns it with its record for the manifest.
    pub(crate) fn open_new(&self, number: FileNumber) -> Result<(FileMeta, Arc<RunFile>)> {
        let table = self.open_table(number, None)?;
        let meta = FileMeta::of(number, &table);
        Ok((meta, RunFile::new(Ok(table), number, self.tables.clone())))
    }

    /// Opens the file `number`. The file must record this number or no number (it was written
    /// outside of a database), or have the id `id`: a file that was restored from a backup may have
    /// a new number.
    pub(crate) fn open_table(
        &self,
        number: FileNumber,
        id: Option<FileId>,
    ) -> Result<Arc<SsTable>> {
        let name = self.name(number);
        let file = self.open_files.open(&self.tables, number.0);
        let file = file.map_err(Error::io("open", &name))?;
        SsTable::read(file, &name, (number.0, id), self.cache.clone())
    }

    /// Opens the file of this record.
    ///
    /// # Errors
    /// As [`Self::open_table`]; `Corruption` also if the file is not the one of the record.
    pub(crate) fn open_known(&self, meta: &FileMeta) -> Result<Arc<SsTable>> {
        let table = self.open_table(meta.number, Some(meta.id))?;
        meta.check_file(&table)?;
        Ok(table)
    }

    /// Opens the file of this record, after a check that it is whole on the disk. The check is left
    /// out if the mutation `skip` is on, in mutation tests.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(crate) fn open_whole(&self, meta: &FileMeta, skip: Mutation) -> Result<Arc<RunFile>> {
        let table = self.open_known(meta)?;
        mutation::unless(skip, || table.verify_past_caches())?;
        Ok(RunFile::new(Ok(table), meta.number, self.tables.clone()))
    }

    /// Opens the file of this record. If it is damaged or cannot be read, it is read once more,
    /// past the system's cache.
    pub(crate) fn open_file(&self, meta: &FileMeta) -> Arc<RunFile> {
        let table = match self.open_known(meta) {
            Err(error) if error.is_of_file() && !mutation::is(Mutation::TrustFirstOpening) => {
                self.forget_cached(meta.number);
                self.open_known(meta)
            }
            opened => opened,
        };
        RunFile::new(table, meta.number, self.tables.clone())
    }

    /// Opens the files of a run. A file that is damaged, is missing or cannot be read leaves a gap;
    /// `met` is called for each damage that was not known before.
    ///
    /// # Errors
    /// `Io` for a lack of descriptors, memory or permission, or if a part of the path is no
    /// directory; `UnsupportedFormat`.
    pub(crate) fn open_run(
        &self,
        meta: &RunMeta,
        mut met: impl FnMut(FileNumber, &Quarantine),
    ) -> Result<Arc<Run>> {
        let mut meta = meta.clone();
        let mut files = Vec::with_capacity(meta.files.len());
        for file_meta in &mut meta.files {
            let file = self.open_file(file_meta);
            if let Some(error) = file.error() {
                let found = Quarantine::of(error);
                let is_refused = found.is_none() && mutation::is(Mutation::RefuseUnreadableFiles);
                if is_refused || !error.is_of_file() {
                    return Err(error.clone());
                }
                if let Some(found) = found
                    && file_meta.quarantine.is_none()
                {
                    met(file_meta.number, &found);
                    file_meta.quarantine = Some(found);
                }
            }
            files.push(file);
        }
        Ok(Run::new(meta, files))
    }

    /// Reads the readable part of the file of this record, past the system's cache. If the file or
    /// a part of it cannot be read, reads the whole file again, and repeats that as long as a
    /// reading loses less than the best one before.
    ///
    /// # Errors
    /// As [`Salvage::open`].
    pub(crate) fn salvage(&self, meta: &FileMeta) -> Result<Salvage> {
        let id = mutation::replace(Some(meta.id), Mutation::SalvageAnyFile, None);
        let read = || {
            let file = self.open_files.open(&self.tables, meta.number.0);
            let file = file.map(|file| {
                // What cannot be forgotten is read as it is.
                let _ = file.forget_cached();
                file as Arc<dyn ReadFile>
            });
            Salvage::open(file, &self.name(meta.number), id)
        };
        let mut salvage = read().or_else(|_| read())?;
        while !salvage.lost.is_empty() && !mutation::is(Mutation::SalvageOnce) {
            match read() {
                Ok(again) if again.lost_bytes() < salvage.lost_bytes() => salvage = again,
                _ => break,
            }
        }
        Ok(salvage)
    }

    /// Asks the system to drop its cached pages of a file, so that the next read comes from the
    /// disk. If the system refuses, the next read may come from the cache.
    pub(crate) fn forget_cached(&self, number: FileNumber) {
        let file = self.open_files.open(&self.tables, number.0);
        let _ = file.and_then(|file| file.forget_cached());
    }
}
