//! Backup: a second directory that opens as the database as it is now.
//!
//! ```text
//!   capture ─► links to all files, in a folder of their own ─► the capture is released
//!                │
//!                ├─ SSTables       linked once more, or copied: they never change. Every block
//!                │                 is checked
//!                ├─ WAL segments   copied, each up to its last record that was written when
//!                │                 the state was captured; an opening cuts the last one, and
//!                │                 the database's own goes on growing
//!                └─ manifest       new, with the captured state; CURRENT names it last
//! ```
//!
//! The state is captured before the end of the log is: so whatever the state
//! relies on is in the copy of the log. Nobody waits for a backup but for the
//! moment in which the state is captured.
//!
//! The links keep the files for as long as a slow target takes. A captured log could not be trimmed
//! meanwhile, and merges would give no space back. Where there are no links the capture is held.
//!
//! A file that was missing or could not be read when the database was opened, and still cannot be
//! read, does not fail the backup. If it cannot be linked or copied, the backup lacks it.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::db::{Capture, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::file_system::{ReadFile, copy_in_steps};
use crate::files;
use crate::key::FileNumber;
use crate::maintenance::new_dir::NewDir;
use crate::maintenance::progress::MaintenanceProgress;
use crate::maintenance::verify::{Finding, finding, verify_log};
use crate::manifest::Manifest;
use crate::mutation::{self, Mutation};
use crate::options::Options;
use crate::runs::{FileMeta, RunMeta};
use crate::sstable::{BlockCache, SsTable};
use crate::sync::Ordering;
use crate::table_store::{Link, LinkFolder, Way, link};

/// What a backup consists of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BackupInfo {
    /// SSTables and WAL segments.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are shared with the database, by hard links.
    pub linked_bytes: u64,
    /// Those that were copied.
    pub copied_bytes: u64,
    /// The damage in the files of the backup, of each SSTable the first. A file that was missing or
    /// could not be read when the database was opened has its path in the database here, and may
    /// be missing in the backup. A backup with damaged SSTables opens, but an older one may have
    /// what it lacks. One with a damaged log may not open.
    #[serde(default)]
    pub damaged: Vec<Finding>,
}

/// A backup under way: see [`Db::start_backup`](crate::Db::start_backup). If it is dropped before
/// [`Self::finish`], everything that it made is removed.
#[derive(Debug)]
pub struct Backup<'a> {
    engine: &'a Engine,
    dir: PathBuf,
    target: NewDir,
    capture: Capture<'a>,
    /// Links to the files of the capture, which then does not hold them.
    links: Option<LinkFolder>,
    /// The files that could not be opened, with the errors.
    unreadable: HashMap<FileNumber, Error>,
    /// The SSTables that are not checked yet. Those that are linked are in the target.
    files: VecDeque<(FileMeta, Way)>,
    cache: Arc<BlockCache>,
    meter: Meter,
    info: BackupInfo,
}

type Step<'s> = &'s mut dyn FnMut(MaintenanceProgress) -> ControlFlow<()>;

impl<'a> Backup<'a> {
    pub(crate) fn start(engine: &'a Engine, dir: &Path) -> Result<Self> {
        let (disk, tables) = (engine.disk(), engine.runs.tables());
        let target = NewDir::claim(engine.options.disk.clone(), dir)?;
        let mut capture = engine.capture()?;
        mutation::linger(&[Mutation::BackupHoldsNoLog, Mutation::BackupHoldsNoFiles]);
        if mutation::is(Mutation::BackupManifestFirst) {
            let disk = engine.options.disk.clone();
            Manifest::create_with(disk, dir, capture.state.clone())?;
        }
        let meter = Meter::new(engine, &capture);
        let unreadable = capture.unreadable();
        let links = link_all(engine, &capture, &unreadable)?;
        if links.is_some() {
            capture.release();
        }
        let runs = capture.state.runs().chain(&capture.waiting);
        let mut files = VecDeque::new();
        for file in runs.flat_map(|run| &run.files) {
            let from = match &links {
                Some(links) => Some(files::sstable(links.dir(), file.number)),
                None => tables.local_file(file.number.0),
            };
            let to = files::sstable(dir, file.number);
            let way = match from.map_or(Ok(false), |from| link(disk, &from, &to)) {
                Ok(true) => Way::Linked,
                Ok(false) => Way::Copied,
                // The copy fails too, and then the file is left out.
                Err(error) if unreadable.contains_key(&file.number) && error.is_of_file() => {
                    Way::Copied
                }
                Err(error) => return Err(error),
            };
            files.push_back((file.clone(), way));
        }
        Ok(Self {
            engine,
            dir: dir.to_path_buf(),
            target,
            capture,
            links,
            unreadable,
            files,
            cache: Arc::new(BlockCache::new(0)),
            meter,
            info: BackupInfo::default(),
        })
    }

    /// Copies the SSTables that could not be linked, and checks every block of all of them,
    /// without a lock of the database. Calls `step` after each block; `step` may wait. If it
    /// breaks, the backup can only be dropped.
    ///
    /// # Errors
    /// [`Error::DiskFull`], also when the disk of the database is about to be full, because the
    /// backup keeps files that the database does not need any more; [`Error::Io`], also when an
    /// SSTable that could be opened before cannot be copied. Damage is no error, nor is a file that
    /// could not be opened before, or a linked one that cannot be read.
    pub fn copy(
        &mut self,
        step: &mut dyn FnMut(MaintenanceProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        while let Some((file, way)) = self.files.front().cloned() {
            let end = self.meter.bytes_done + file.bytes;
            if self.add(&file, way, step)?.is_break() {
                return self.meter.stopped(self.engine);
            }
            let rest = end.saturating_sub(self.meter.bytes_done);
            if self.meter.advance(self.engine, rest, step).is_break() {
                return self.meter.stopped(self.engine);
            }
            self.files.pop_front();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Copies and checks the log, and makes the directory a database. Returns `None` if `step`
    /// breaks, and then everything is removed.
    ///
    /// # Errors
    /// As [`Self::copy`]; [`Error::InvalidRequest`] before that has come to its end.
    pub fn finish(
        mut self,
        step: &mut dyn FnMut(MaintenanceProgress) -> ControlFlow<()>,
    ) -> Result<Option<BackupInfo>> {
        if !self.files.is_empty() {
            let text = "the backup does not have all files yet";
            return Err(Error::InvalidRequest(text.into()));
        }
        let segments = std::mem::take(&mut self.capture.segments);
        for &(number, bytes) in &segments {
            let links = self.links.as_ref();
            let from = files::wal(links.map_or(self.engine.dir(), LinkFolder::dir), number);
            let opened = self.engine.disk().open_read(&from);
            let source = opened.map_err(Error::io("open", &from))?;
            let to = files::wal(&self.dir, number);
            if self.copy_file(&*source, bytes, &to, step)?.is_break() {
                return self.meter.stopped(self.engine).map(|_| None);
            }
            self.info.copied_bytes += bytes;
            self.info.files += 1;
        }
        let options = Options {
            table_store: None,
            ..self.engine.options.clone()
        };
        let damaged = verify_log(&options, &self.dir, &self.capture.state, &segments);
        self.info.damaged.extend(damaged);
        self.info.bytes = self.info.linked_bytes + self.info.copied_bytes;
        self.target.complete(self.capture.state)?;
        Ok(Some(self.info))
    }

    /// Copies an SSTable that is not linked, checks it, and counts it. Leaves it out if it could not
    /// be opened and cannot be copied.
    fn add(&mut self, file: &FileMeta, way: Way, step: Step<'_>) -> Result<ControlFlow<()>> {
        let to = files::sstable(&self.dir, file.number);
        let bytes = match way {
            Way::Linked => file.bytes,
            Way::Copied => match self.copy_sstable(file.number, &to, step) {
                Ok(ControlFlow::Continue(bytes)) => bytes,
                Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
                Err(error) => {
                    self.note_unreadable(file.number, error)?;
                    // Nothing, or a part of it, was copied.
                    let _ = self.engine.disk().remove(&to);
                    return Ok(ControlFlow::Continue(()));
                }
            },
        };
        if self.check(file, way, &to, step)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match way {
            Way::Linked => self.info.linked_bytes += bytes,
            Way::Copied => self.info.copied_bytes += bytes,
        }
        self.info.files += 1;
        Ok(ControlFlow::Continue(()))
    }

    /// Notes a file that could not be opened, after its copy or its check failed with `error`.
    ///
    /// # Errors
    /// `error`, if the file could be opened, or if the error is that of a full disk or the like.
    fn note_unreadable(&mut self, number: FileNumber, error: Error) -> Result<()> {
        match self.unreadable.get(&number) {
            Some(known) if error.is_of_file() => {
                let found = finding(known.clone(), self.engine.dir());
                self.info.damaged.push(found);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Copies an SSTable, and returns its length.
    fn copy_sstable(
        &mut self,
        number: FileNumber,
        to: &Path,
        step: Step<'_>,
    ) -> Result<ControlFlow<(), u64>> {
        let (name, opened) = match &self.links {
            Some(links) => {
                let from = files::sstable(links.dir(), number);
                let opened = self.engine.disk().open_read(&from);
                (from, opened)
            }
            None => {
                let tables = self.engine.runs.tables();
                (tables.name(number.0), tables.open(number.0))
            }
        };
        let source = opened.map_err(Error::io("open", &name))?;
        let bytes = source.len();
        let bytes = bytes.map_err(Error::io("get the length of", &name))?;
        let copied = self.copy_file(&*source, bytes, to, step)?;
        Ok(copied.map_continue(|()| bytes))
    }

    fn copy_file(
        &mut self,
        source: &dyn ReadFile,
        bytes: u64,
        to: &Path,
        step: Step<'_>,
    ) -> Result<ControlFlow<()>> {
        let (engine, meter) = (self.engine, &mut self.meter);
        let target = engine.disk().create(to);
        let mut target = target.map_err(Error::no_space_or_io("create", to))?;
        let mut step = |bytes| meter.advance(engine, bytes, step);
        let copied = copy_in_steps(source, &mut *target, bytes, &mut step);
        copied.map_err(Error::no_space_or_io("copy", to))
    }

    /// Checks every block of an SSTable in the target, and notes damage.
    fn check(
        &mut self,
        file: &FileMeta,
        way: Way,
        to: &Path,
        step: Step<'_>,
    ) -> Result<ControlFlow<()>> {
        let (engine, meter) = (self.engine, &mut self.meter);
        let mut step = |bytes| {
            // The bytes of a copy were counted when they were copied.
            let more = if way == Way::Linked { bytes } else { 0 };
            meter.advance(engine, more, step)
        };
        let place = (file.number.0, Some(file.id));
        let opened = engine.disk().open_read(to).map_err(Error::io("open", to));
        let checked = opened
            .and_then(|source| SsTable::read(source, to, place, self.cache.clone()))
            .and_then(|table| table.check_blocks(&mut step));
        let damage = match (checked, &file.quarantine) {
            (Ok(ControlFlow::Break(())), _) => return Ok(ControlFlow::Break(())),
            (Ok(ControlFlow::Continue(())), None) => None,
            (Ok(ControlFlow::Continue(())), Some(known)) => Some(Finding {
                path: to.to_path_buf(),
                offset: known.offset,
                detail: format!("in quarantine: {}", known.detail),
            }),
            (Err(error), _) if error.kind() == ErrorKind::Corruption => {
                Some(finding(error, &self.dir))
            }
            // The backup shares the file with the database, and nothing else of it is at fault. The
            // disk may be failing, and then a backup is needed most.
            (Err(error), _)
                if way == Way::Linked
                    && error.is_of_file()
                    && !self.unreadable.contains_key(&file.number) =>
            {
                Some(finding(error, &self.dir))
            }
            (Err(error), _) => {
                self.note_unreadable(file.number, error)?;
                None
            }
        };
        self.info.damaged.extend(damage);
        Ok(ControlFlow::Continue(()))
    }
}

/// Links the files of a capture into a folder beside the database; `None` where that cannot be.
/// Files that could not be opened are linked if they are there.
fn link_all(
    engine: &Engine,
    capture: &Capture<'_>,
    unreadable: &HashMap<FileNumber, Error>,
) -> Result<Option<LinkFolder>> {
    if engine.check_access().is_err() {
        // The directory of a database that was opened to be read is left alone.
        return Ok(None);
    }
    let dir = loop {
        let number = engine.backups.fetch_add(1, Ordering::Relaxed) + 1;
        let dir = files::backup_links(engine.dir(), number);
        // A folder may be left of an earlier backup, and a user may have made one of that name.
        let exists = engine.disk().exists(&dir);
        if !exists.map_err(Error::io("look for", &dir))? {
            break dir;
        }
    };
    let runs = capture.state.runs().chain(&capture.waiting);
    let mut links = Vec::new();
    for number in runs.flat_map(RunMeta::numbers) {
        let Some(from) = engine.runs.tables().local_file(number.0) else {
            return Ok(None);
        };
        links.push(Link {
            from,
            to: files::sstable(&dir, number),
            is_optional: unreadable.contains_key(&number),
        });
    }
    for &(number, _) in &capture.segments {
        links.push(Link {
            from: files::wal(engine.dir(), number),
            to: files::wal(&dir, number),
            is_optional: false,
        });
    }
    LinkFolder::make(engine.options.disk.clone(), dir, &links)
}

/// A backup ends before the disk of the database has fewer free bytes than this many low-water
/// marks, so that no write is refused for it; or than half of what was free when it began.
const LOW_WATER_MARKS: u64 = 2;

/// The free space is looked up after this many bytes.
const LOOK_EVERY_BYTES: u64 = 256 << 10;

/// The progress of a backup, and the space that it leaves.
#[derive(Debug)]
struct Meter {
    bytes_done: u64,
    bytes_total: u64,
    /// `None` where the free space is not known.
    free_bytes_min: Option<u64>,
    /// The value of `bytes_done` at which the free space is looked up next.
    look_at: u64,
    /// Whether there was too little free space at the last look.
    is_full: bool,
}

impl Meter {
    fn new(engine: &Engine, capture: &Capture<'_>) -> Self {
        let runs = capture.state.runs().chain(&capture.waiting);
        let in_runs: u64 = runs.map(RunMeta::bytes).sum();
        let in_log: u64 = capture.segments.iter().map(|(_, bytes)| bytes).sum();
        let free_bytes = free_bytes(engine);
        let left_bytes = engine.low_water_bytes().saturating_mul(LOW_WATER_MARKS);
        Self {
            bytes_done: 0,
            bytes_total: in_runs + in_log,
            free_bytes_min: free_bytes.map(|free| left_bytes.min(free / 2)),
            look_at: LOOK_EVERY_BYTES,
            is_full: false,
        }
    }

    /// Counts bytes, and calls `step` unless too little space is left.
    fn advance(&mut self, engine: &Engine, bytes: u64, step: Step<'_>) -> ControlFlow<()> {
        self.bytes_done += bytes;
        if self.bytes_done >= self.look_at {
            self.look_at = self.bytes_done + LOOK_EVERY_BYTES;
            let free = free_bytes(engine).zip(self.free_bytes_min);
            self.is_full = free.is_some_and(|(free, min)| free < min);
        }
        if self.is_full {
            return ControlFlow::Break(());
        }
        step(MaintenanceProgress {
            bytes_done: self.bytes_done,
            bytes_total: self.bytes_total.max(self.bytes_done),
        })
    }

    /// The end of a backup after [`Self::advance`] broke.
    fn stopped(&self, engine: &Engine) -> Result<ControlFlow<()>> {
        if self.is_full {
            let path = engine.dir().to_path_buf();
            return Err(Error::DiskFull { path });
        }
        Ok(ControlFlow::Break(()))
    }
}

fn free_bytes(engine: &Engine) -> Option<u64> {
    engine.disk().free_bytes(engine.dir()).ok().flatten()
}
