//! The directory of a backup: a new one, or one with an older backup of the same database.
//!
//! ```text
//!   older backup    CURRENT ─► MANIFEST-1 ─► 7.sst 8.sst 9.sst   wal-3 wal-4
//!   beside it       MANIFEST-2 ────────────────────────► 9.sst 12.sst   wal-5
//!   one rename      CURRENT ─► MANIFEST-2
//!   only then       MANIFEST-1, 7.sst, 8.sst, wal-3 and wal-4 are removed
//! ```
//!
//! No file of the older backup is changed before the rename; one that is damaged is replaced, by a
//! rename too. A database uses no number of an SSTable twice, so a new SSTable has a name that is
//! free; where the name has another SSTable nevertheless, the directory is refused. The manifest of
//! the older backup has the end of its log, and the numbers of the new log begin there. So an
//! interruption leaves either backup whole.
//!
//! The mark of a backup in the manifest has the id of its database. The first opening for writing
//! removes the mark, so a database that a user works with is never taken for a backup.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::key::FileNumber;
use crate::log_store::{self, LockGuard};
use crate::maintenance::new_dir::{NewDir, has_database};
use crate::manifest::{DatabaseId, Manifest, State};
use crate::mutation::{self, Mutation};
use crate::runs::RunMeta;
use crate::wal;

/// The directory of a backup, locked. If it is dropped before [`BackupDir::complete`], the files
/// that were made in it are removed, and an older backup stays.
#[derive(Debug)]
pub(super) enum BackupDir {
    New(NewDir),
    Older(OlderBackup),
}

impl BackupDir {
    /// Locks a directory that is missing, empty, or a backup of the database `source`.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if the directory has something else in it, such as an incomplete
    /// backup; [`Error::Locked`]; [`Error::Corruption`] if the manifest of the older backup is
    /// damaged.
    pub(super) fn claim(disk: Arc<dyn Disk>, dir: &Path, source: DatabaseId) -> Result<Self> {
        // What an interrupted backup or repair left is refused there.
        if !has_database(&*disk, dir)? {
            return NewDir::claim(disk, dir).map(Self::New);
        }
        OlderBackup::claim(disk, dir, source).map(Self::Older)
    }

    pub(super) fn has_older(&self) -> bool {
        matches!(self, Self::Older(_))
    }

    /// Looks up the name of an SSTable in the directory.
    pub(super) fn find(&self, number: FileNumber) -> Found {
        match self {
            Self::New(_) => Found::Nothing,
            Self::Older(older) => older.find(number),
        }
    }

    /// Returns the smallest number that a new segment of the log may have in the directory.
    pub(super) fn first_segment(&self) -> FileNumber {
        match self {
            Self::New(_) => FileNumber::default(),
            Self::Older(older) => older.first_segment,
        }
    }

    /// Notes the path of a file that is about to be created, so that the file is removed if the
    /// backup is not completed.
    pub(super) fn note(&mut self, path: &Path) {
        if let Self::Older(older) = self {
            older.made.push(path.to_path_buf());
        }
    }

    /// Makes the directory a backup with this state. `waiting` are the runs that the backup's log
    /// names, and its manifest does not. All files must be in the directory, and their bytes
    /// durable. Afterwards, removes the files that only the older backup needed.
    pub(super) fn complete(self, state: State, waiting: &[RunMeta]) -> Result<()> {
        match self {
            Self::New(new) => new.complete(state),
            Self::Older(older) => older.replace(state, waiting),
        }
    }
}

/// The result of looking up the name of an SSTable in the directory of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A file that the manifest of the older backup names. Its bytes are durable.
    Named,
    /// A file that the manifest of the older backup does not name. Only the log of that backup
    /// names it, or an interrupted backup left it, perhaps before its bytes were durable.
    Unnamed,
}

/// An older backup that is about to be replaced.
#[derive(Debug)]
pub(super) struct OlderBackup {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The SSTables that the manifest of the older backup names.
    named: HashSet<FileNumber>,
    /// The SSTables in the directory when it was claimed.
    found: HashSet<FileNumber>,
    first_segment: FileNumber,
    next_manifest: FileNumber,
    /// The files that are removed unless the new backup is completed.
    made: Vec<PathBuf>,
    _lock: Box<dyn LockGuard>,
}

impl OlderBackup {
    fn claim(disk: Arc<dyn Disk>, dir: &Path, source: DatabaseId) -> Result<Self> {
        // The check comes before the lock, too: a database that is open is refused because it is no
        // backup.
        load(&disk, dir, source)?;
        let lock = log_store::take_lock(&*disk, dir)?;
        let manifest = load(&disk, dir, source)?;
        // An interrupted backup may have left segments there.
        let first_segment = manifest.state().wal_segments().end;
        wal::remove_segments(&*disk, dir, first_segment)?;
        let listed = disk.list(dir).map_err(Error::io("list", dir))?;
        let sstable = |path: &PathBuf| match FileKind::of(path) {
            Some(FileKind::SsTable(number)) => Some(number),
            _ => None,
        };
        Ok(Self {
            named: (manifest.state().runs())
                .flat_map(RunMeta::numbers)
                .collect(),
            found: listed.iter().filter_map(sstable).collect(),
            first_segment,
            next_manifest: manifest.next_number(),
            made: Vec::new(),
            disk,
            dir: dir.to_path_buf(),
            _lock: lock,
        })
    }

    fn find(&self, number: FileNumber) -> Found {
        match (self.found.contains(&number), self.named.contains(&number)) {
            (false, _) => Found::Nothing,
            (true, true) => Found::Named,
            (true, false) => Found::Unnamed,
        }
    }

    /// Makes CURRENT name the manifest of the new backup, and removes the files that only the older
    /// backup needed. `waiting` are the runs that the new backup's log names, and its manifest does
    /// not.
    fn replace(mut self, state: State, waiting: &[RunMeta]) -> Result<()> {
        let synced = self.disk.sync_dir(&self.dir);
        synced.map_err(Error::io("sync", &self.dir))?;
        let segments = state.wal_segments();
        let sstables: HashSet<FileNumber> = state
            .runs()
            .chain(waiting)
            .flat_map(RunMeta::numbers)
            .collect();
        let next_manifest = self.next_manifest;
        let is_needed = move |kind: FileKind| match kind {
            FileKind::SsTable(number) => sstables.contains(&number),
            FileKind::Wal(number) => segments.contains(&number),
            FileKind::Manifest(number) => number == next_manifest,
            FileKind::Temporary => false,
        };
        if mutation::is(Mutation::BackupRemovesFirst) {
            let is_manifest = |kind| matches!(kind, FileKind::Manifest(_));
            self.remove_unless(|kind| is_needed(kind) || is_manifest(kind));
        }
        let made = Manifest::create_numbered(self.disk.clone(), &self.dir, state, next_manifest);
        if made.is_ok() || !self.is_live() {
            self.made.clear();
        }
        made?;
        self.remove_unless(is_needed);
        Ok(())
    }

    /// Returns whether CURRENT still names the manifest of the older backup, after an attempt to
    /// replace it failed. A failed rename may have happened or not; if it happened, the files of the
    /// new backup must stay. Returns false, too, if no manifest can be read.
    fn is_live(&self) -> bool {
        let manifest = Manifest::load(self.disk.clone(), &self.dir);
        matches!(manifest, Ok(Some(manifest)) if manifest.next_number() == self.next_manifest)
    }

    /// Removes the files for which `is_needed` returns false. The next backup removes those that
    /// cannot be removed now.
    fn remove_unless(&self, is_needed: impl Fn(FileKind) -> bool) {
        for path in self.disk.list(&self.dir).unwrap_or_default() {
            if FileKind::of(&path).is_some_and(|kind| !is_needed(kind)) {
                let _ = self.disk.remove(&path);
            }
        }
    }
}

impl Drop for OlderBackup {
    fn drop(&mut self) {
        for path in &self.made {
            // The caller gets the failure that led here.
            let _ = self.disk.remove(path);
        }
    }
}

/// Reads the manifest of a backup of the database `source`.
///
/// # Errors
/// [`Error::InvalidRequest`] if the directory is no backup of that database, or was opened for
/// writing after the backup; the errors of reading a manifest.
fn load(disk: &Arc<dyn Disk>, dir: &Path, source: DatabaseId) -> Result<Manifest> {
    let refused = |what: &str| {
        let text = format!(
            "{} {what}; name a directory that is empty or not there yet, or an earlier backup of \
             this database",
            dir.display()
        );
        Err(Error::InvalidRequest(text))
    };
    let Some(manifest) = Manifest::load(disk.clone(), dir)? else {
        return refused("has changed meanwhile");
    };
    let mark = manifest.state().backup;
    match mark {
        Some(mark) if mark.source == source => Ok(manifest),
        Some(_) => refused("has a backup of another database"),
        None => refused("has a database that is no backup, or was opened for writing since"),
    }
}
