//! Backup: a second directory that opens as the database as it is now.
//!
//! ```text
//!   capture ─► links to all files, in a folder of their own ─► the capture is released
//!                │
//!                ├─ SSTables       linked once more, or copied: they never change. Every block
//!                │                 is checked: that of a copy in the buffer that is copied.
//!                │                 Those that an older backup in the directory has whole stay
//!                ├─ WAL segments   copied, each up to its last record that was written when
//!                │                 the state was captured, and checked in the buffer that is
//!                │                 copied. The last segment would not do as a link: the database
//!                │                 appends to it, and an opening of the backup truncates it
//!                └─ manifest       new, with the captured state; CURRENT names it last
//! ```
//!
//! `target` writes the directory. An older backup in it stays whole until CURRENT names the new
//! manifest.
//!
//! The state is captured before the length of the log is taken, so the copy of the log has
//! everything that the state relies on. A backup blocks others only for the moment in which the
//! state is captured.
//!
//! The links keep the files for as long as a slow target takes. Without links the capture would
//! have to keep them: while it is held, the log is not trimmed and merges free no space. If the
//! disk has no links, the capture is held to the end.
//!
//! A file that was missing or could not be read when the database was opened, and still cannot be
//! read, does not fail the backup. If it cannot be linked or copied, the backup lacks it. The same
//! is true of a file whose name was removed since. If a part of any other file cannot be read, a
//! copy has zeros there: the disk may be failing, and then a backup is needed most.

mod check;
mod links;
mod meter;
mod renumbered;
mod target;
mod tee_file;
mod unsynced;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::check::{check_blocks, check_open, known_damage, refuse_other_file};
use self::links::{is_missing, link_all, link_sstable};
use self::meter::Meter;
use self::renumbered::Renumbered;
use self::target::{BackupDir, Found};
use self::tee_file::TeeFile;
use self::unsynced::Unsynced;
use crate::db::{Capture, Engine, KeptFiles};
use crate::error::{Error, ErrorKind, Result};
use crate::file_system::{self, OrZeros, ReadFile, WriteFile, copy_in_steps, read_in_steps};
use crate::files;
use crate::key::FileNumber;
use crate::maintenance::progress::Step;
use crate::maintenance::verify::{Finding, LogCheck, SegmentCheck, finding};
use crate::manifest::{BackupMark, DatabaseId, Manifest};
use crate::mutation::{self, Mutation};
use crate::runs::{FileMeta, RunMeta};
use crate::sstable::BlockCache;
use crate::table_store::{Imported, LinkFolder};
use crate::wal::Segment;

/// The result of a backup: the number and the bytes of its files, and their damage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BackupInfo {
    /// The number of SSTables and WAL segments in the backup.
    pub files: u64,
    /// Bytes of all SSTables and WAL segments in the backup.
    pub bytes: u64,
    /// Bytes of the files of the backup that are hard links to files of the database.
    pub linked_bytes: u64,
    /// Bytes of the files that were copied.
    pub copied_bytes: u64,
    /// Bytes of the SSTables of an older backup in the directory that the new backup uses. They were
    /// checked, too.
    #[serde(default)]
    pub kept_bytes: u64,
    /// The first damage in each damaged SSTable of the backup, and the damage in its log. A file
    /// that was missing or could not be read when the database was opened, or was removed since,
    /// is listed with its path in the database, and may be missing in the backup. A backup with
    /// damaged SSTables opens, but an older backup may have the data that it lacks. A backup with a
    /// damaged log may not open.
    #[serde(default)]
    pub damaged: Vec<Finding>,
    /// True if the new backup has damage, and so was not completed: the directory still has the
    /// older backup.
    #[serde(default)]
    pub older_stays: bool,
}

/// A backup under way: see [`Db::start_backup`](crate::Db::start_backup). If it is dropped before
/// [`Self::finish`], the files that the backup made are removed, and an older backup in the
/// directory stays. A new copy that already replaced a damaged file of the older backup stays, too.
#[derive(Debug)]
pub struct Backup<'a> {
    engine: &'a Engine,
    dir: PathBuf,
    /// The copied files whose bytes may not be durable yet. They are closed before `target` removes
    /// them.
    unsynced: Unsynced,
    target: BackupDir,
    capture: Capture<'a>,
    /// Hard links to the files of the database, which keep the files after `capture` is released;
    /// `None` if [`link_all`] could not make them. Then `capture` is held to the end.
    links: Option<LinkFolder>,
    /// The files that `links` or `capture` keep, for the statistics of the database.
    _kept: Arc<KeptFiles>,
    /// The files of the database that could not be opened, or were removed since, with the errors.
    unreadable: HashMap<FileNumber, Error>,
    /// The SSTables that are not checked yet, each with its origin: the database, or an older
    /// backup in the directory.
    files: VecDeque<(FileMeta, Origin)>,
    /// The difference between the number of a log segment in the backup and its number in the
    /// database.
    log_shift: u64,
    /// The number of segments of the log that were copied.
    segments_done: usize,
    /// The check of the log, which compares each segment with those before it.
    log_check: LogCheck,
    /// A cache that keeps nothing, because a check reads each block once.
    cache: Arc<BlockCache>,
    meter: Meter,
    info: BackupInfo,
    /// The SSTables in which damage was found that the database did not know.
    suspects: Vec<FileNumber>,
}

/// The origin of an SSTable of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The file comes from the database: it was linked, or is to be copied.
    Database(Imported),
    /// The directory already has a file of this name, which stays if it is the same SSTable and
    /// undamaged. Unless `is_synced`, its bytes may not be durable yet.
    There { is_synced: bool },
    /// The directory already has a file of this name, which is damaged and has to be replaced.
    Damaged,
}

impl<'a> Backup<'a> {
    pub(crate) fn start(engine: &'a Engine, dir: &Path) -> Result<Self> {
        let mut target = BackupDir::claim(engine.options.disk.clone(), dir, engine.database_id())?;
        let mut capture = engine.capture()?;
        mutation::linger(&[Mutation::BackupHoldsNoLog, Mutation::BackupHoldsNoFiles]);
        if mutation::is(Mutation::BackupManifestFirst) {
            let disk = engine.options.disk.clone();
            Manifest::create_with(disk, dir, capture.state.clone())?;
        }
        let meter = Meter::new(engine, &capture);
        let mut unreadable = capture.unreadable();
        add_removed(engine, &capture, &mut unreadable);
        let links = link_all(engine, &capture, &unreadable)?;
        if links.is_some() {
            capture.release();
        }
        let runs = capture.state.runs().chain(&capture.waiting);
        let mut files = VecDeque::new();
        for file in runs.flat_map(|run| &run.files) {
            let to = files::sstable(dir, file.number);
            let origin = match target.find(file.number) {
                Found::Named => Origin::There { is_synced: true },
                Found::Unnamed => Origin::There { is_synced: false },
                Found::Nothing => {
                    target.note(&to);
                    let is_unreadable = unreadable.contains_key(&file.number);
                    let links = links.as_ref();
                    Origin::Database(link_sstable(
                        engine,
                        links,
                        file.number,
                        &to,
                        is_unreadable,
                    )?)
                }
            };
            files.push_back((file.clone(), origin));
        }
        let sstables = files.iter().map(|(file, _)| (file.number, file.bytes));
        let kept = engine.backup_files.add(KeptFiles {
            sstables: sstables.collect(),
            segments: capture.segments.clone(),
        });
        let log_shift = number_log(&mut capture, &target, engine.database_id());
        let log_check = LogCheck::new(Some(&capture.state));
        Ok(Self {
            engine,
            dir: dir.to_path_buf(),
            unsynced: Unsynced::default(),
            target,
            capture,
            links,
            _kept: kept,
            unreadable,
            files,
            log_shift,
            segments_done: 0,
            log_check,
            cache: Arc::new(BlockCache::new(0)),
            meter,
            info: BackupInfo::default(),
            suspects: Vec::new(),
        })
    }

    /// Copies the SSTables that could not be linked, and checks every block of all SSTables. Then
    /// copies and checks the log without its last segment, because the database may still append to
    /// that one. Holds no lock of the database, so the calling thread may have a low priority.
    ///
    /// Calls `step` after each piece of a file. A piece has at most some hundred kilobytes, unless a
    /// block is larger. `step` may wait. If it returns `Break`, this returns `Break`. After that, or
    /// after an error, the backup must be dropped. The last copy becomes durable in
    /// [`Self::finish`].
    ///
    /// # Errors
    /// [`Error::DiskFull`], also when the disk of the database is about to be full, because the
    /// backup keeps files that the database does not need any more; [`Error::Io`];
    /// [`Error::InvalidRequest`] if an SSTable of the older backup has the number of an SSTable of
    /// the database, but is another file. Damage is no error. Nor is it an error if the database
    /// could not open a file before the backup began, if a file is missing, or if a part of a file
    /// cannot be read.
    pub fn copy(&mut self, step: Step<'_>) -> Result<ControlFlow<()>> {
        while let Some((file, origin)) = self.files.front().cloned() {
            let end = self.meter.bytes_done + file.bytes;
            if self.add(&file, origin, step)?.is_break() {
                return self.meter.stopped();
            }
            self.unsynced.sync_older()?;
            let rest = end.saturating_sub(self.meter.bytes_done);
            if self.meter.advance(rest, step).is_break() {
                return self.meter.stopped();
            }
            self.files.pop_front();
        }
        self.copy_log(1, step)
    }

    /// Copies and checks the last segment of the log, and makes the directory a database. If the new
    /// backup has damage and the directory has an older backup, the older one stays instead. Reads again
    /// the SSTables of the database in which new damage was found, and puts damaged ones into quarantine.
    /// That takes locks for which requests wait, so the calling thread must not have a low priority.
    /// Returns `None` if `step` returns `Break`; the backup is then dropped (see [`Self`]).
    ///
    /// # Errors
    /// As [`Self::copy`]; [`Error::InvalidRequest`] if [`Self::copy`] has not copied and checked all
    /// SSTables.
    pub fn finish(mut self, step: Step<'_>) -> Result<Option<BackupInfo>> {
        if !self.files.is_empty() {
            let text = "the backup does not have all files yet";
            return Err(Error::InvalidRequest(text.into()));
        }
        if self.copy_log(0, step)?.is_break() {
            return Ok(None);
        }
        self.unsynced.sync_all()?;
        // Nothing is kept while the damaged files are read again.
        self.capture.release();
        for number in &self.suspects {
            self.engine.quarantine_if_damaged(*number);
        }
        let BackupInfo {
            linked_bytes,
            copied_bytes,
            kept_bytes,
            ..
        } = self.info;
        self.info.bytes = linked_bytes + copied_bytes + kept_bytes;
        // The older backup may have what this one lacks.
        if self.target.has_older() && !self.info.damaged.is_empty() {
            self.info.older_stays = true;
            return Ok(Some(self.info));
        }
        let Capture { state, waiting, .. } = self.capture;
        self.target.complete(state, &waiting)?;
        Ok(Some(self.info))
    }

    /// Copies the segments of the log that are not copied yet, except the last `left` ones. Returns
    /// `Break` if `step` does.
    fn copy_log(&mut self, left: usize, step: Step<'_>) -> Result<ControlFlow<()>> {
        let end = self.capture.segments.len().saturating_sub(left);
        while self.segments_done < end {
            let (number, bytes) = self.capture.segments[self.segments_done];
            let end = self.meter.bytes_done + bytes;
            if self.copy_segment(number, bytes, step)?.is_break() {
                return self.meter.stopped();
            }
            self.unsynced.sync_older()?;
            // A segment may be short or missing.
            let rest = end.saturating_sub(self.meter.bytes_done);
            if rest > 0 && self.meter.advance(rest, step).is_break() {
                return self.meter.stopped();
            }
            self.segments_done += 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Copies the first `bytes` bytes of a segment of the log, checks every record while it is
    /// copied, notes damage, and adds the copy to the counts of the backup. If a part of the
    /// segment cannot be read, the copy has zeros there. If the segment has fewer bytes, so has the
    /// copy. If the segment cannot be opened, the backup lacks it. Returns `Break` if `step` does,
    /// or if too little space is left.
    fn copy_segment(
        &mut self,
        number: FileNumber,
        bytes: u64,
        step: Step<'_>,
    ) -> Result<ControlFlow<()>> {
        let (engine, links) = (self.engine, self.links.as_ref());
        let from = files::wal(links.map_or(engine.dir(), LinkFolder::dir), number);
        let to = FileNumber(number.0 + self.log_shift);
        let copy = Segment {
            number: to,
            path: files::wal(&self.dir, to),
        };
        // The segment has whole records up to `bytes`, so a torn tail is damage.
        let mut check = SegmentCheck::new(&mut self.log_check, &copy, false);
        let opened = engine.disk().open_read(&from);
        let source = match opened.map_err(Error::io("open", &from)) {
            Ok(source) => source,
            Err(error) if error.is_of_file() => {
                self.info.damaged.push(Finding {
                    path: files::wal(engine.dir(), number),
                    ..finding(error, &self.dir)
                });
                return Ok(ControlFlow::Continue(()));
            }
            Err(error) => return Err(error),
        };
        let found = source.len();
        let found = found.map_err(Error::io("get the length of", &from))?;
        let copied_bytes = bytes.min(found);
        let source = OrZeros::new(&*source);
        self.target.note(&copy.path);
        let renumbered = Renumbered::new(&source, &Segment { number, path: from }, to)?;
        let reader: &dyn ReadFile = match &renumbered {
            Some(renumbered) => renumbered,
            // The check finds a damaged header.
            None => &source,
        };
        let mut target = create(engine, &copy.path)?;
        let meter = &mut self.meter;
        let copied = read_in_steps(reader, 0..copied_bytes, &mut |piece| {
            target.append(piece)?;
            check.add(piece);
            Ok(meter.advance(piece.len() as u64, step))
        });
        let copied = copied.map_err(Error::no_space_or_io("copy", &copy.path))?;
        if copied.is_break() {
            return Ok(copied);
        }
        let damage = if found < bytes {
            let detail = format!("it has {found} bytes, and {bytes} were written");
            Some(Error::corruption(&copy.path, found, detail))
        } else if let Some(error) = source.into_failure() {
            Some(Error::io("read", &copy.path)(error))
        } else {
            check.end().err()
        };
        let damage = damage.map(|error| finding(error, &self.dir));
        self.info.damaged.extend(damage);
        self.unsynced.add(&copy.path, target);
        self.info.copied_bytes += copied_bytes;
        self.info.files += 1;
        Ok(copied)
    }

    /// Copies the SSTable `file` if it is not linked, checks it, and adds it to the counts of the
    /// backup. Leaves the file out of the backup if the database could not open it and it cannot be
    /// copied. Returns `Break` if `step` does, or if too little space is left.
    fn add(&mut self, file: &FileMeta, origin: Origin, step: Step<'_>) -> Result<ControlFlow<()>> {
        let to = files::sstable(&self.dir, file.number);
        let (way, put_at) = match origin {
            Origin::There { is_synced } => return self.keep(file, &to, is_synced, step),
            Origin::Database(way) => (way, to.clone()),
            Origin::Damaged => {
                let tmp = files::sstable_tmp(&self.dir);
                (self.link_again(file.number, &tmp)?, tmp)
            }
        };
        let known = self.info.damaged.len();
        let added = match way {
            Imported::Linked => self.check_link(file, &put_at, step)?,
            Imported::Copied => match self.copy_sstable(file, &put_at, step) {
                Ok(copied) => copied,
                Err(error) => {
                    self.note_unreadable(file.number, error)?;
                    // Nothing, or a part of it, was copied.
                    let _ = self.engine.disk().remove(&put_at);
                    return Ok(ControlFlow::Continue(()));
                }
            },
        };
        let bytes = match added {
            ControlFlow::Continue(bytes) => bytes,
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
        };
        if self.info.damaged.len() > known && file.quarantine.is_none() {
            self.suspects.push(file.number);
        }
        if put_at != to {
            // The rename replaces a file of the older backup, so the bytes must be durable first.
            self.unsynced.sync_all()?;
            self.replace(&to, &put_at, known)?;
        }
        match way {
            Imported::Linked => self.info.linked_bytes += bytes,
            Imported::Copied => self.info.copied_bytes += bytes,
        }
        self.info.files += 1;
        Ok(ControlFlow::Continue(()))
    }

    /// Replaces `damaged`, a damaged file of the older backup in the directory, by `by`, the new
    /// copy of the same SSTable. If the check of `by` found damage, too, the older file stays,
    /// because each of the two may have data that the other lacks. The findings about `by` then get
    /// the path `damaged`. `known` is the number of findings before the check of `by`.
    fn replace(&mut self, damaged: &Path, by: &Path, known: usize) -> Result<()> {
        let found = &mut self.info.damaged[known..];
        if found.is_empty() {
            let renamed = self.engine.disk().rename(by, damaged);
            return renamed.map_err(Error::io("rename", by));
        }
        for finding in found.iter_mut().filter(|finding| finding.path == by) {
            finding.path = damaged.to_path_buf();
        }
        Ok(())
    }

    /// Checks the file at `at`, which an older backup left. Keeps it if it is the SSTable `file` and
    /// undamaged; if it is damaged, schedules its replacement. `is_synced` is true if the bytes of
    /// the file are known to be durable. Returns `Break` if `step` does, or if too little space is
    /// left.
    ///
    /// # Errors
    /// As [`refuse_other_file`] if the file is another SSTable; [`Error::UnsupportedFormat`];
    /// [`Error::Io`].
    fn keep(
        &mut self,
        file: &FileMeta,
        at: &Path,
        is_synced: bool,
        step: Step<'_>,
    ) -> Result<ControlFlow<()>> {
        let (engine, meter) = (self.engine, &mut self.meter);
        let mut step = |bytes| meter.advance(bytes, step);
        let checked = check_blocks(engine, file, at, &self.cache, &mut step);
        let trusted = Ok(ControlFlow::Continue(()));
        match mutation::replace(checked, Mutation::BackupTrustsOlder, trusted) {
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Ok(ControlFlow::Continue(())) => {
                if !is_synced {
                    // This makes its bytes durable, and cuts nothing.
                    let synced = self.engine.disk().truncate(at, file.bytes);
                    synced.map_err(Error::io("sync", at))?;
                }
                self.info.kept_bytes += file.bytes;
                self.info.files += 1;
                self.info.damaged.extend(known_damage(file, at));
            }
            Err(error) if error.is_of_file() || error.kind() == ErrorKind::Corruption => {
                refuse_other_file(self.engine, file, at)?;
                self.meter.expect(file.bytes);
                self.files.push_back((file.clone(), Origin::Damaged));
            }
            Err(error) => return Err(error),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Links an SSTable of the database to the temporary name `tmp` in the backup, because a
    /// damaged file still has the name of the SSTable. Returns [`Imported::Copied`] if the caller
    /// has to copy the SSTable to `tmp` instead.
    fn link_again(&mut self, number: FileNumber, tmp: &Path) -> Result<Imported> {
        self.target.note(tmp);
        // An interrupted backup may have left one.
        let removed = file_system::gone(self.engine.disk().remove(tmp));
        removed.map_err(Error::io("remove", tmp))?;
        let is_unreadable = self.unreadable.contains_key(&number);
        link_sstable(self.engine, self.links.as_ref(), number, tmp, is_unreadable)
    }

    /// Handles `error`, the failure of the copy or of the check of an SSTable. If the database
    /// could not open the SSTable before the backup began, or if the name of the SSTable was
    /// removed since, adds the SSTable to the damaged files of the backup.
    ///
    /// # Errors
    /// Returns `error` if the database could open the file, and the file is not missing, or if the
    /// file is not the cause of the error (a full disk, for example).
    fn note_unreadable(&mut self, number: FileNumber, error: Error) -> Result<()> {
        let found = match self.unreadable.get(&number) {
            Some(known) if error.is_of_file() => known.clone(),
            // Without links the capture is held, so the database itself removes no file.
            None if self.links.is_none()
                && error.is_of_missing_file()
                && self.engine.runs.is_missing(number) =>
            {
                Error::io("open", &self.engine.runs.name(number))(io::ErrorKind::NotFound.into())
            }
            _ => return Err(error),
        };
        let found = finding(found, self.engine.dir());
        self.info.damaged.push(found);
        Ok(())
    }

    /// Copies an SSTable to `to`, checks every block of it while it is copied, and notes damage. If
    /// the database could open the SSTable, and a part of it cannot be read, the copy has zeros
    /// there. Returns the length of the SSTable; `Break` if `step` does, or if too little space is
    /// left.
    fn copy_sstable(
        &mut self,
        file: &FileMeta,
        to: &Path,
        step: Step<'_>,
    ) -> Result<ControlFlow<(), u64>> {
        let number = file.number;
        let (from, opened) = match &self.links {
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
        let source = opened.map_err(Error::io("open", &from))?;
        let bytes = source.len();
        let bytes = bytes.map_err(Error::io("get the length of", &from))?;
        let tee = Arc::new(TeeFile::new(source.clone(), create(self.engine, to)?));
        let meter = &mut self.meter;
        let mut step = |bytes| meter.advance(bytes, step);
        let checked = check_open(tee.clone(), file, &from, &self.cache, &mut step);
        let tee = Arc::into_inner(tee).expect("the check has closed the table");
        // A failure to write the copy has failed the check, too, and comes first.
        let copy = tee.into_copy();
        let (mut copy, copied) = copy.map_err(Error::no_space_or_io("copy", to))?;
        let found = |error: Error| Finding {
            path: to.to_path_buf(),
            ..finding(error, &self.dir)
        };
        let damage = match checked {
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Ok(ControlFlow::Continue(())) => known_damage(file, to),
            Err(error) if is_listed(&error, self.unreadable.contains_key(&number)) => {
                Some(found(error))
            }
            Err(error) => return Err(error),
        };
        // Index and filters, and all that follows damage.
        let source = OrZeros::new(&*source);
        let rest = copy_in_steps(&source, &mut *copy, copied..bytes, &mut step);
        if rest.map_err(Error::no_space_or_io("copy", to))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // Index and filters are read twice. The second read may fail after a sound check.
        let failure = source.into_failure().map(Error::io("read", &from));
        let damage = damage.or_else(|| failure.map(found));
        self.unsynced.add(to, copy);
        self.info.damaged.extend(damage);
        Ok(ControlFlow::Continue(bytes))
    }

    /// Checks every block of a linked SSTable at `to` in the target, and notes damage. Returns the
    /// length of the SSTable; `Break` if `step` does, or if too little space is left.
    fn check_link(
        &mut self,
        file: &FileMeta,
        to: &Path,
        step: Step<'_>,
    ) -> Result<ControlFlow<(), u64>> {
        let (engine, meter) = (self.engine, &mut self.meter);
        let mut step = |bytes| meter.advance(bytes, step);
        let damage = match check_blocks(engine, file, to, &self.cache, &mut step) {
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Ok(ControlFlow::Continue(())) => known_damage(file, to),
            Err(error) if is_listed(&error, self.unreadable.contains_key(&file.number)) => {
                Some(finding(error, &self.dir))
            }
            Err(error) => {
                self.note_unreadable(file.number, error)?;
                None
            }
        };
        self.info.damaged.extend(damage);
        Ok(ControlFlow::Continue(file.bytes))
    }
}

fn create(engine: &Engine, to: &Path) -> Result<Box<dyn WriteFile>> {
    let created = engine.disk().create(to);
    created.map_err(Error::no_space_or_io("create", to))
}

/// Adds the files of a capture whose names were removed while the database had them open.
fn add_removed(
    engine: &Engine,
    capture: &Capture<'_>,
    unreadable: &mut HashMap<FileNumber, Error>,
) {
    let runs = capture.state.runs().chain(&capture.waiting);
    for number in runs.flat_map(RunMeta::numbers) {
        let Some(path) = engine.runs.tables().local_file(number.0) else {
            return;
        };
        if is_missing(engine.disk(), &path) {
            let missing = Error::io("open", &path)(io::ErrorKind::NotFound.into());
            unreadable.entry(number).or_insert(missing);
        }
    }
}

/// Returns whether the backup lists `error`, the failure of the check of an SSTable, as damage of the
/// SSTable. If the database could not open the SSTable (`is_unreadable`), the backup lists the error
/// of that opening in place of a failed read.
fn is_listed(error: &Error, is_unreadable: bool) -> bool {
    error.kind() == ErrorKind::Corruption || error.is_of_file() && !is_unreadable
}

/// Marks the captured state as that of a backup of `source`. If the directory has log segments of
/// an older backup, raises the numbers of the new segments above theirs. Returns the difference
/// between the new and the old number of a segment; 0 if the numbers stay.
fn number_log(capture: &mut Capture<'_>, target: &BackupDir, source: DatabaseId) -> u64 {
    let first = capture.segments.first().map(|(number, _)| number.0);
    let free = target.first_segment().0;
    let shift = first.map_or(0, |first| free.saturating_sub(first));
    let last = capture.segments.last().map(|(number, _)| number.0 + shift);
    let state = &mut capture.state;
    // An opening needs a segment for every floor but the first number. The database may have none:
    // a crash cut off the only one, and no writer has replaced it yet.
    state.wal_floor = first.map_or_else(FileNumber::default, |_| {
        FileNumber(state.wal_floor.0 + shift)
    });
    state.backup = Some(BackupMark {
        source,
        wal_end: last.map_or(state.wal_floor, |last| FileNumber(last + 1)),
    });
    shift
}
