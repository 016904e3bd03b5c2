//! Restores damaged files from a backup.
//!
//! A file has a random id, which is part of all its checksums. So a file of the backup with the
//! same id and length whose blocks are all whole is the same file, whatever its name. It is copied,
//! and one edit of the manifest replaces the damaged file by the copy.
//!
//! The copy of a damaged file has a new number, because readers may still read the damaged file. The
//! copy of a missing file has the number of the missing file: the manifest names this number, so a
//! part of a copy that a crash leaves is a damaged file of the database. Under a new number it would
//! be a file that the manifest does not name, and beside a missing file such a file keeps the database
//! from opening. For the same reason missing files are restored before damaged ones.
//!
//! While the files of a table are read, those that merges replace stay, as for a reader. So a restore ends
//! before they fill the disk. It copies a file only while there is space for the rest of the copy, too.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::damaged::{damage_of, flush_waiting_runs};
use super::progress::MaintenanceProgress;
use super::space::{SpaceLooks, SpaceWatch};
use crate::db::{Engine, TableCore};
use crate::error::{Error, Result, lossy};
use crate::file_system::{ReadFile, read_in_steps, sync_copied};
use crate::files::FileKind;
use crate::key::FileNumber;
use crate::manifest::Manifest;
use crate::mutation::Mutation;
use crate::runs::{FileMeta, FileNumbers, RunFile};
use crate::sstable::{FileId, SsTable, id_of_file};

/// The result of [`Db::restore`](crate::Db::restore).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestoreReport {
    /// The damaged files that were restored from the backup, and those whose damage was gone before
    /// that (a merge removed the file, for example).
    pub restored: Vec<RestoredFile>,
    /// The files that are still damaged.
    pub left: Vec<RestoredFile>,
}

/// A file that was damaged before the restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredFile {
    /// The table of the file, as `KEYSPACE.TABLE`.
    pub table: String,
    /// The damaged file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The damage; for a file that is still damaged, the reason why it was not restored.
    pub detail: String,
}

/// A moment at which a restore calls its caller: see [`Db::restore_while`](crate::Db::restore_while).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreStep {
    /// The restore has read a block of a file. The caller may wait, and may lower the priority of the thread.
    /// A file that is damaged is read twice.
    Read(MaintenanceProgress),
    /// The restore takes locks next, because it begins with a file, opens it or replaces it, or because the
    /// caller has ended the restore at a [`Self::Read`]. Requests wait for the same locks. If the caller has
    /// lowered the priority of the thread, it has to raise it again.
    Lock,
}

/// The callback of a restore. It ends the restore by returning `Break`.
type Step<'s> = &'s mut dyn FnMut(RestoreStep) -> ControlFlow<()>;

/// Replaces damaged files of the database by those of the backup in `dir`: see
/// [`Db::restore_while`](crate::Db::restore_while).
pub(crate) fn restore(
    engine: &Engine,
    dir: &Path,
    mut step: impl FnMut(RestoreStep) -> ControlFlow<()>,
) -> Result<Option<RestoreReport>> {
    engine.check_access()?;
    let backup = BackupFiles::find(engine, dir)?;
    // An edit of the manifest replaces a file, so the manifest has to name all files. Files that could
    // not be read when the database was opened, and can be read now, need no backup.
    flush_waiting_runs(engine)?;
    engine.retry_unreadable_now()?;
    let mut space = SpaceLooks::new(engine);
    let mut report = RestoreReport::default();
    let restored = restore_all(engine, &backup, &mut report, &mut |at| {
        if let RestoreStep::Read(now) = at {
            space.look(now.bytes_done)?;
        }
        step(at)
    });
    drop(step);
    // Removes the damaged files, and tables that were dropped meanwhile.
    engine.release_retired();
    if let Some(shortage) = space.shortage() {
        return Err(shortage);
    }
    Ok(restored?.is_continue().then_some(report))
}

/// Restores the missing files, and then reads all files and restores the damaged ones. Returns `Break`
/// if `step` does.
fn restore_all(
    engine: &Engine,
    backup: &BackupFiles,
    report: &mut RestoreReport,
    step: Step<'_>,
) -> Result<ControlFlow<()>> {
    let bytes_of = |table: &Arc<TableCore>| -> u64 {
        let version = table.version();
        let files = version.runs.iter().flat_map(|run| &run.meta().files);
        files.map(|file| file.bytes).sum()
    };
    let mut progress = Progress {
        bytes_done: 0,
        bytes_total: engine.tables().iter().map(bytes_of).sum(),
        space: SpaceWatch::new(engine),
        step,
    };
    for only_missing in [true, false] {
        for table in engine.tables() {
            for run in &table.version().runs {
                for (meta, file) in run.meta().files.iter().zip(run.files()) {
                    if progress.lock().is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    let path = engine.runs.name(meta.number);
                    let was_tried = report.left.iter().any(|left| left.path == path);
                    if !was_tried && (!only_missing || engine.runs.is_missing(meta.number)) {
                        let file = (meta, file);
                        let done = restore_if_damaged(
                            engine,
                            backup,
                            &table,
                            file,
                            report,
                            &mut progress,
                        )?;
                        if done.is_break() {
                            return Ok(done);
                        }
                    }
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The callback of a restore, with the number of bytes that were read so far, and that of all files at the
/// beginning.
struct Progress<'s> {
    bytes_done: u64,
    bytes_total: u64,
    /// The free space that the copies of files leave.
    space: SpaceWatch,
    step: Step<'s>,
}

impl Progress<'_> {
    /// Reads every block of a table, and checks it. If that fails, reads the table again, past the caches
    /// of the system: bytes that changed in memory are no damage. Undamaged files stay in the caches.
    /// Returns `Break` if the callback does.
    ///
    /// # Errors
    /// As [`SsTable::verify`].
    fn read(&mut self, table: &SsTable) -> Result<ControlFlow<()>> {
        let mut read = || {
            let (before, mut bytes) = (self.bytes_done, 0_u64);
            table.verify_while(&mut |more| {
                // The length of a block that cannot be read may be any number.
                bytes = table.file_bytes().min(bytes.saturating_add(more));
                self.bytes_done = before + bytes;
                (self.step)(RestoreStep::Read(MaintenanceProgress {
                    bytes_done: self.bytes_done,
                    bytes_total: self.bytes_total.max(self.bytes_done),
                }))
            })
        };
        match read() {
            Err(error) if error.is_of_file() => {
                table.forget_cached()?;
                read()
            }
            done => done,
        }
    }

    fn lock(&mut self) -> ControlFlow<()> {
        (self.step)(RestoreStep::Lock)
    }
}

/// If a file is damaged, restores it if possible, and adds it to the report. Returns `Break` if the
/// callback does.
fn restore_if_damaged(
    engine: &Engine,
    backup: &BackupFiles,
    table: &TableCore,
    (meta, file): (&FileMeta, &Arc<RunFile>),
    report: &mut RestoreReport,
    progress: &mut Progress<'_>,
) -> Result<ControlFlow<()>> {
    let mut read = ControlFlow::Continue(());
    let check = |meta: &FileMeta, table: &SsTable| {
        let done = progress.read(table);
        // Also if the restore ends here, because it then drops files that only its version of the table has.
        let locked = progress.lock();
        read = done?;
        if read.is_continue() {
            read = locked;
        }
        if read.is_break() {
            return Ok(());
        }
        // A file that is open can be read without its name, which the next opening needs.
        engine.runs.open_known(meta).map(drop)
    };
    let damage = damage_of(meta, file, check)?;
    if read.is_break() {
        return Ok(read);
    }
    let Some(reason) = damage else {
        return Ok(read);
    };
    if progress.lock().is_break() {
        return Ok(ControlFlow::Break(()));
    }
    let failed = match backup.by_id.get(&meta.id) {
        // No other thread opens a file of which only a part is copied.
        Some(from) => engine.while_none_reopens(|| {
            restore_file(engine, table, (meta, file), from, &progress.space)
        })?,
        None => Some(backup.reason_of_lack()),
    };
    if failed.is_some() && !engine.runs.is_missing(meta.number) {
        engine.quarantine_if_damaged(meta.number);
    }
    let list = match &failed {
        None => &mut report.restored,
        Some(_) => &mut report.left,
    };
    list.push(RestoredFile {
        table: format!("{}.{}", table.keyspace, table.name),
        path: engine.runs.name(meta.number),
        detail: failed.unwrap_or(reason),
    });
    Ok(ControlFlow::Continue(()))
}

struct BackupFiles {
    by_id: HashMap<FileId, PathBuf>,
    /// The error of one of the files whose header could not be read, so that it is unknown whether
    /// the database needs this file; `None` if there is no such file.
    unreadable: Option<Error>,
}

impl BackupFiles {
    /// Finds the SSTables in the directory of a backup. Files with a damaged header are left out.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such directory; [`Error::InvalidRequest`] if it has neither a
    /// manifest nor SSTables; [`Error::Io`].
    fn find(engine: &Engine, dir: &Path) -> Result<Self> {
        let (mut by_id, mut unreadable) = (HashMap::new(), None);
        let listed = engine.disk().list(dir);
        let listed = listed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::not_found("backup", dir.display().to_string()),
            _ => Error::io("list", dir)(error),
        });
        for path in listed? {
            if !matches!(FileKind::of(&path), Some(FileKind::SsTable(_))) {
                continue;
            }
            match id_of_file(engine.disk(), &path) {
                Ok(Some(id)) => {
                    by_id.insert(id, path);
                }
                Ok(None) => {}
                Err(error) if error.is_of_file() => unreadable = Some(error),
                Err(error) => return Err(error),
            }
        }
        // An empty database has no SSTables.
        let has_tables = !by_id.is_empty() || unreadable.is_some();
        if !has_tables && !Manifest::exists(engine.disk(), dir)? {
            let dir = dir.display();
            let text = format!("{dir} is no backup: name the directory that ebb backup made");
            return Err(Error::InvalidRequest(text));
        }
        Ok(Self { by_id, unreadable })
    }

    /// Returns the reason why a damaged file was not restored: the backup has no copy of the file,
    /// or none whose header can be read.
    fn reason_of_lack(&self) -> String {
        match &self.unreadable {
            None => "the backup does not have it".to_string(),
            Some(error) => format!("the readable files of the backup do not include it: {error}"),
        }
    }
}

/// Replaces a damaged file by the same file from the backup. Returns `None` if the file was replaced,
/// or if its damage was gone meanwhile. Otherwise returns the reason: the backup's file is damaged or
/// cannot be read.
///
/// To be called within [`Engine::while_none_reopens`]: otherwise the file could become whole while
/// its copy is made.
fn restore_file(
    engine: &Engine,
    table: &TableCore,
    (damaged, file): (&FileMeta, &Arc<RunFile>),
    from: &Path,
    space: &SpaceWatch,
) -> Result<Option<String>> {
    // A copy of a whole file would have a new number. Beside a missing file that copy could keep the
    // database from opening.
    if !is_still_damaged(table, damaged.number, file) {
        return Ok(None);
    }
    match copy_whole(engine, damaged, from, space) {
        Ok((whole, file)) => {
            // If a merge or a drop removed the damaged file meanwhile, its damage is gone, too.
            engine.replace_damaged(table, damaged.number, whole, file)?;
            Ok(None)
        }
        // It may be the damaged file itself, by a second name.
        Err(Error::Corruption { offset, detail, .. }) => Ok(Some(format!(
            "{} is damaged too, at offset {offset}: {detail}",
            from.display()
        ))),
        Err(error) if is_of(&error, from) && error.is_of_file() => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Returns whether the damaged file `number` is still damaged: the table still has `file`, the
/// object in which the damage was found, or has another object that is known to be damaged. Since
/// the damage was found, another restore may have replaced the file, or a retry may have opened it.
fn is_still_damaged(table: &TableCore, number: FileNumber, file: &Arc<RunFile>) -> bool {
    let version = table.version();
    let runs = version.runs.iter();
    let mut files = runs.flat_map(|run| run.meta().files.iter().zip(run.files()));
    files.any(|(meta, now)| {
        let is_known = meta.quarantine.is_some() || now.error().is_some();
        meta.number == number && (is_known || Arc::ptr_eq(now, file))
    })
}

/// Returns whether an error is an I/O error of a call on the file `path`.
fn is_of(error: &Error, path: &Path) -> bool {
    matches!(error, Error::Io { path: failed, .. } if failed == path)
}

/// Copies the file `from` of the backup, checks that the copy is whole, and returns it with its
/// record for the manifest. The copy of a missing file gets the number of that file; any other copy
/// gets a new number, because readers may still read the damaged file.
///
/// # Errors
/// [`Error::Corruption`] if the file of the backup or the copy is damaged, or is not the expected
/// file; [`Error::Io`] with the path of the file that could not be read or written;
/// [`Error::DiskFull`], also if the copy would leave too little space for writes.
fn copy_whole(
    engine: &Engine,
    damaged: &FileMeta,
    from: &Path,
    space: &SpaceWatch,
) -> Result<(FileMeta, Arc<RunFile>)> {
    let store = &engine.runs;
    let source = engine.disk().open_read(from);
    let source = source.map_err(Error::io("open", from))?;
    let bytes = source.len().map_err(Error::io("get the length of", from))?;
    if bytes != damaged.bytes {
        let detail = format!("it has {bytes} bytes, {} are expected", damaged.bytes);
        return Err(Error::corruption(from, bytes.min(damaged.bytes), detail));
    }
    let number = if store.is_missing(damaged.number) {
        damaged.number
    } else {
        engine.next_file_number()?
    };
    let whole = FileMeta {
        number,
        quarantine: None,
        ..damaged.clone()
    };
    let copied = copy(engine, (&*source, from), bytes, number, space);
    // Reads the copy from the disk, so that a fault of the copying is found, too.
    let opened = copied.and_then(|()| store.open_whole(&whole, Mutation::RestoreUnverified));
    let file = opened.inspect_err(|_| store.remove(number))?;
    Ok((whole, file))
}

/// Copies an open file of the backup into the file `number` of the database. The file is not linked:
/// damage to the backup's file must not be damage to this one. Before each piece, checks that there is space
/// for the rest of the file.
fn copy(
    engine: &Engine,
    (source, from): (&dyn ReadFile, &Path),
    bytes: u64,
    number: FileNumber,
    space: &SpaceWatch,
) -> Result<()> {
    let (tables, name) = (engine.runs.tables(), engine.runs.name(number));
    let target = tables.create(number.0);
    let mut target = target.map_err(Error::no_space_or_io("create", &name))?;
    let mut left_bytes = bytes;
    let mut written = Ok(());
    let read = read_in_steps(source, 0..bytes, &mut |piece| {
        written = space.check_for(left_bytes).and_then(|()| {
            let appended = target.append(piece);
            appended.map_err(Error::no_space_or_io("write", &name))
        });
        left_bytes -= piece.len() as u64;
        Ok(if written.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    });
    let _done = read.map_err(Error::io("read", from))?;
    written?;
    let synced = sync_copied(&mut *target);
    synced.map_err(Error::no_space_or_io("write", &name))?;
    let finished = tables.finish();
    finished.map_err(Error::no_space_or_io("sync", &name))
}
