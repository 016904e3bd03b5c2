//! The links of a backup to the files that it needs: first in a folder of their own, then in the
//! directory of the backup.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::db::{Capture, Engine};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::files;
use crate::key::FileNumber;
use crate::runs::RunMeta;
use crate::sync::Ordering;
use crate::table_store::{Imported, Link, LinkFolder, link};

/// Links the files of a capture into a folder in the directory of the database. Returns `None` if the
/// disk cannot link them or has no space for a link ([`LinkFolder::make`]), if an SSTable is no file
/// of this disk, or if the database was opened read-only. An SSTable in `unreadable` is left out if
/// it cannot be linked. A segment of the log is left out if it is missing.
pub(super) fn link_all(
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
        let from = files::wal(engine.dir(), number);
        links.push(Link {
            is_optional: is_missing(engine.disk(), &from),
            from,
            to: files::wal(&dir, number),
        });
    }
    LinkFolder::make(engine.options.disk.clone(), dir, &links)
}

/// Links an SSTable of the database to the path `to` in the backup, and returns
/// [`Imported::Linked`]. Returns [`Imported::Copied`] if the disk cannot link it, or if the SSTable
/// is no file of this disk: then the caller has to copy it. Returns the same if the link fails
/// because of the file, and `is_unreadable` is true (the database could not open the file).
pub(super) fn link_sstable(
    engine: &Engine,
    links: Option<&LinkFolder>,
    number: FileNumber,
    to: &Path,
    is_unreadable: bool,
) -> Result<Imported> {
    let from = match links {
        Some(links) => Some(files::sstable(links.dir(), number)),
        None => engine.runs.tables().local_file(number.0),
    };
    match from.map_or(Ok(false), |from| link(engine.disk(), &from, to)) {
        Ok(true) => Ok(Imported::Linked),
        Ok(false) => Ok(Imported::Copied),
        // The copy fails too, and then the file is left out.
        Err(error) if is_unreadable && error.is_of_file() => Ok(Imported::Copied),
        Err(error) => Err(error),
    }
}

/// Returns whether a file of the database is missing. Returns false if the directory of the
/// database was moved: the opening of a file there fails with another error.
pub(super) fn is_missing(disk: &dyn Disk, path: &Path) -> bool {
    let exists = disk.exists(path).unwrap_or(true);
    let is_not_found = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    !exists && disk.open_read(path).is_err_and(is_not_found)
}
