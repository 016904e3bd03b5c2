//! The folder `damaged`, where files that were given up stay for later examination.

use std::path::{Path, PathBuf};

use crate::db::Engine;
use crate::error::{Error, Result};
use crate::files;
use crate::key::FileNumber;
use crate::table_store::link;

/// Gives a damaged file a second name in the folder `damaged`, where the engine does not use it. Returns
/// the second name, or `None` if the file cannot get one: it is missing, it is no file of this disk, or
/// the disk is full or cannot link the file.
pub(super) fn keep_aside(engine: &Engine, number: FileNumber) -> Result<Option<PathBuf>> {
    let Some(from) = engine.runs.tables().local_file(number.0) else {
        return Ok(None);
    };
    let (dir, disk) = (files::damaged_dir(engine.dir()), engine.disk());
    let to = files::damaged(&dir, number);
    let exists = |path: &Path| disk.exists(path).map_err(Error::io("look for", path));
    let keep = || -> Result<bool> {
        // An earlier attempt may have ended behind the link. No number is used twice.
        if !exists(&to)? {
            if !exists(&from)? {
                return Ok(false);
            }
            let created = disk.create_dir_all(&dir);
            created.map_err(Error::no_space_or_io("create", &dir))?;
            if !link(disk, &from, &to)? {
                return Ok(false);
            }
        }
        // Also for the link of an earlier attempt, which may have ended before this.
        let synced = disk.sync_dir(&dir);
        synced.map_err(Error::no_space_or_io("sync", &dir))?;
        Ok(true)
    };
    match keep() {
        Ok(is_kept) => Ok(is_kept.then_some(to)),
        Err(error) => {
            remove(engine, number);
            match error {
                Error::DiskFull { .. } => Ok(None),
                error if error.is_of_file() => Ok(None),
                error => Err(error),
            }
        }
    }
}

/// Removes the second name that [`keep_aside`] gave to a file, because the file stays in its table: the
/// name would hold the space of the file when a merge or a drop removes it. Keeps the name if it may be
/// the file's only one: if the first name is missing, or an uncertain edit of the manifest may have
/// removed the file from its table.
pub(super) fn remove(engine: &Engine, number: FileNumber) {
    let disk = engine.disk();
    let first = engine.runs.tables().local_file(number.0);
    let is_there = first.is_some_and(|path| disk.exists(&path).unwrap_or(false));
    if is_there && !engine.has_uncertain_edit() {
        // A name that stays does no harm but to hold the space, and a later attempt finds it.
        let _ = disk.remove(&files::damaged(&files::damaged_dir(engine.dir()), number));
    }
}
