//! Restores damaged files from a backup: the same bytes, under a new number.
//!
//! A file has a random id, which is part of all its checksums. So a file of the backup with the
//! same id and length whose blocks are all whole is the same file, whatever its name. It is copied,
//! and one edit of the manifest replaces the damaged file by the copy.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::damaged::{damaged_files, flush_waiting_runs};
use crate::db::{Engine, TableCore};
use crate::error::{Error, Result, lossy};
use crate::file_system::copy_into;
use crate::files::FileKind;
use crate::manifest::Manifest;
use crate::mutation::Mutation;
use crate::runs::{FileMeta, FileNumbers};
use crate::sstable::{FileId, SsTable, id_of_file};

/// The result of [`Db::restore`](crate::Db::restore).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestoreReport {
    /// The damaged files that were restored from the backup.
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
    /// The damage; for a file that is still damaged, why the backup does not help.
    pub detail: String,
}

/// Replaces damaged files of the database by those of the backup in `dir`: see
/// [`Db::restore`](crate::Db::restore).
pub(crate) fn restore(engine: &Engine, dir: &Path) -> Result<RestoreReport> {
    engine.check_access()?;
    let in_backup = files_by_id(engine, dir)?;
    // An edit of the manifest replaces a file, so the manifest has to name all files. Files that could
    // not be read when the database was opened, and can be read now, need no backup.
    flush_waiting_runs(engine)?;
    engine.retry_unreadable_now()?;
    // A file that is open can be read without its name, which the next opening needs.
    let check = |meta: &FileMeta, table: &SsTable| {
        table.verify_past_caches()?;
        engine.runs.open_known(meta).map(drop)
    };
    let mut report = RestoreReport::default();
    for table in engine.tables() {
        for run in &table.version().runs {
            for (file, reason) in damaged_files(run, check)? {
                let failed = match in_backup.get(&file.id) {
                    Some(from) => restore_file(engine, &table, file, from)?,
                    None => Some("the backup does not have it".to_string()),
                };
                let list = match &failed {
                    None => &mut report.restored,
                    Some(_) => &mut report.left,
                };
                list.push(RestoredFile {
                    table: format!("{}.{}", table.keyspace, table.name),
                    path: engine.runs.name(file.number),
                    detail: failed.unwrap_or(reason),
                });
            }
        }
    }
    // Removes the damaged files, and tables that were dropped meanwhile.
    engine.release_retired();
    Ok(report)
}

/// Returns the SSTables in a directory by their ids. Files whose header cannot be read are left
/// out.
///
/// # Errors
/// [`Error::NotFound`] if there is no such directory; [`Error::InvalidRequest`] if it has neither a manifest
/// nor SSTables; [`Error::Io`].
fn files_by_id(engine: &Engine, dir: &Path) -> Result<HashMap<FileId, PathBuf>> {
    let mut by_id = HashMap::new();
    let listed = engine.disk().list(dir);
    let listed = listed.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::not_found("backup", dir.display().to_string()),
        _ => Error::io("list", dir)(error),
    });
    for path in listed? {
        if matches!(FileKind::of(&path), Some(FileKind::SsTable(_)))
            && let Some(id) = id_of_file(engine.disk(), &path)?
        {
            by_id.insert(id, path);
        }
    }
    // An empty database has no SSTables.
    if by_id.is_empty() && !Manifest::exists(engine.disk(), dir)? {
        let dir = dir.display();
        let text = format!("{dir} is no backup: name the directory that ebb backup made");
        return Err(Error::InvalidRequest(text));
    }
    Ok(by_id)
}

/// Replaces a damaged file by the same file from the backup. Returns the reason if that is not
/// possible, and `None` after the replacement.
fn restore_file(
    engine: &Engine,
    table: &TableCore,
    damaged: &FileMeta,
    from: &Path,
) -> Result<Option<String>> {
    let store = &engine.runs;
    let source = engine.disk().open_read(from);
    let source = source.map_err(Error::io("open", from))?;
    let bytes = source.len().map_err(Error::io("get the length of", from))?;
    if bytes != damaged.bytes {
        let (from, whole) = (from.display(), damaged.bytes);
        return Ok(Some(format!(
            "{from} has {bytes} bytes, {whole} are expected"
        )));
    }
    let number = engine.next_file_number()?;
    let whole = FileMeta {
        number,
        quarantine: None,
        ..damaged.clone()
    };
    let opened = (|| {
        let (tables, name) = (store.tables(), store.name(number));
        // The file is copied, not linked: damage to the backup's file must not be damage to this one.
        let copied = tables
            .create(number.0)
            .and_then(|mut target| copy_into(&*source, &mut *target, bytes));
        copied.map_err(Error::no_space_or_io("copy", &name))?;
        tables
            .finish()
            .map_err(Error::no_space_or_io("sync", &name))?;
        // Reads the copy from the disk, so that a fault of the copying is found, too.
        store.open_whole(&whole, Mutation::RestoreUnverified)
    })();
    match opened {
        Ok(file) => {
            // If the damaged file is gone meanwhile, its damage is gone, too.
            engine.replace_damaged(table, damaged.number, whole, file)?;
            Ok(None)
        }
        Err(error) => {
            store.remove(number);
            match error {
                // It may be the damaged file itself, by a second name.
                Error::Corruption { offset, detail, .. } => Ok(Some(format!(
                    "{} is damaged too, at offset {offset}: {detail}",
                    from.display()
                ))),
                error => Err(error),
            }
        }
    }
}
