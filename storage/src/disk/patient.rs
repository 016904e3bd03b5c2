//! A disk that waits while the process has no file descriptor left.
//!
//! The lack passes: the engine closes tables and spare descriptors, and the program closes other
//! files. So a call that writes waits until it succeeds: a failure would leave a manifest in an
//! unknown state, and stop all writes. A call that makes a segment of the log fails after a second,
//! because a commit waits for it, which can be refused: nothing of it is written yet. A call that
//! reads fails after a while, because the caller may itself hold the descriptors that it waits for.
//! While the database is being opened a call that writes fails after a while too: nothing relies on
//! an opening that fails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::disk::Disk;
use crate::file_system::{FileSystem, ReadFile, SyncFile, WriteFile, is_out_of_descriptors};
use crate::log_store::{LockGuard, LogStore};
use crate::table_store::{OpenFiles, Stage, TableFiles};

/// The pause between two tries of a call that finds no file descriptor.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// The number of tries of a call that may fail, five seconds in all.
const TRIES_MAX: u64 = 500;
/// The number of tries of a call that makes a segment of the log, a second in all.
const SEGMENT_TRIES_MAX: u64 = 100;

/// The kinds of calls, by how long they wait for a file descriptor while the database is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Reads,
    Writes,
    MakesSegment,
}

impl Patience {
    /// Returns the number of tries of a call; `None` for any number.
    fn tries_max(self) -> Option<u64> {
        match self {
            Self::Reads => Some(TRIES_MAX),
            Self::Writes => None,
            Self::MakesSegment => Some(SEGMENT_TRIES_MAX),
        }
    }
}

/// A disk whose calls wait for file descriptors.
#[derive(Debug, Clone)]
pub(crate) struct PatientDisk {
    disk: Arc<dyn Disk>,
    /// Open tables and spare descriptors, which are closed to free descriptors.
    files: Arc<OpenFiles>,
    /// The patience of calls that make files and their names.
    making: Patience,
}

impl PatientDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, files: Arc<OpenFiles>) -> Self {
        Self {
            disk,
            files,
            making: Patience::Writes,
        }
    }

    /// Returns this disk for the segments of the log.
    pub(crate) fn for_log(&self) -> Self {
        Self {
            making: Patience::MakesSegment,
            ..self.clone()
        }
    }

    pub(crate) fn files(&self) -> &Arc<OpenFiles> {
        &self.files
    }

    /// Holds spare descriptors on a file that is there, as far as the process has any left.
    pub(crate) fn hold_spares(&self, path: &Path) {
        self.files.hold_spares(|| self.disk.open_read(path));
    }

    /// Repeats `call` until there is a descriptor, while the database is open.
    fn writing<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.calling(Patience::Writes, call)
    }

    fn making<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.calling(self.making, call)
    }

    fn reading<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.calling(Patience::Reads, call)
    }

    fn calling<T>(
        &self,
        patience: Patience,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut tried = 0;
        loop {
            let outcome = call();
            tried += 1;
            let tries_max = match self.files.stage() {
                Stage::Open => patience.tries_max(),
                Stage::Opening => Some(TRIES_MAX),
                Stage::Closing => Some(0),
            };
            let is_to_wait = tries_max.is_none_or(|max| tried < max);
            match &outcome {
                Err(e) if is_out_of_descriptors(e) && is_to_wait => {}
                _ => return outcome,
            }
            if tried > 1 {
                thread::park_timeout(RETRY_AFTER);
                self.files.note_wait(RETRY_AFTER);
            }
            // Right before the next try: readers would open tables that are closed earlier again.
            self.files.make_room();
            if patience != Patience::Reads {
                self.files.give_up_spares();
            }
        }
    }
}

impl FileSystem for PatientDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.reading(|| self.disk.open_read(path))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.making(|| self.disk.create(path))?;
        let disk = self.clone();
        Ok(Box::new(PatientFile { file, disk }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.writing(|| self.disk.truncate(path, len))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.reading(|| self.disk.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.reading(|| self.disk.create_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.making(|| self.disk.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
}

impl LogStore for PatientDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.reading(|| self.disk.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.reading(|| self.disk.lock_shared(path))
    }
}

impl TableFiles for PatientDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<Option<u64>> {
        self.disk.free_bytes(dir)
    }
}

/// A file whose second handle may have to wait for a descriptor.
#[derive(Debug)]
struct PatientFile {
    file: Box<dyn WriteFile>,
    disk: PatientDisk,
}

impl WriteFile for PatientFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        self.disk.making(|| self.file.syncer())
    }
}
