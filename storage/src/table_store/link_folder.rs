//! A folder of links to files, which keeps the files while a backup copies them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{TableFiles, link};
use crate::error::{Error, Result};
use crate::files::FileKind;

/// A temporary folder of hard links to files of the database, so that the files stay until a backup
/// has copied them. It is removed on drop; if that fails, the next opening of the database removes
/// it.
#[derive(Debug)]
pub(crate) struct LinkFolder {
    disk: Arc<dyn TableFiles>,
    dir: PathBuf,
}

/// A link to be made in a folder.
#[derive(Debug)]
pub(crate) struct Link {
    /// The path of the existing file.
    pub(crate) from: PathBuf,
    /// The path of the link in the folder.
    pub(crate) to: PathBuf,
    /// Whether the file may be missing or unreadable. The folder is made without this link then.
    pub(crate) is_optional: bool,
}

impl LinkFolder {
    /// Makes the folder `dir`, which must not exist, with hard links. Returns `None` if the disk
    /// cannot link one of the files there, has no space for a link, or cannot remove directories.
    ///
    /// The folder is not synced: after a crash it is of no use.
    pub(crate) fn make(
        disk: Arc<dyn TableFiles>,
        dir: PathBuf,
        links: &[Link],
    ) -> Result<Option<Self>> {
        // The call shows whether this disk can remove the folder later.
        let removed = disk.remove_dir(&dir);
        if removed.is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
            return Ok(None);
        }
        let folder = Self { disk, dir };
        let make = || -> Result<bool> {
            let created = folder.disk.create_dir_all(&folder.dir);
            created.map_err(Error::no_space_or_io("create", &folder.dir))?;
            for it in links {
                match link(&*folder.disk, &it.from, &it.to) {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) if it.is_optional && error.is_of_file() => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        };
        match make() {
            Ok(true) => Ok(Some(folder)),
            Ok(false) | Err(Error::DiskFull { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes a folder of links. A path that is a symbolic link or a file stays, and so does a
    /// folder with a file that is neither an SSTable nor a log segment: a user made it, and it may
    /// be a backup.
    pub(crate) fn remove(disk: &dyn TableFiles, dir: &Path) -> io::Result<()> {
        // This comes before the list, which would follow a symbolic link to the files of others.
        match disk.remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
        let paths = disk.list(dir)?;
        let is_link = |path: &PathBuf| {
            let kind = FileKind::of(path);
            matches!(kind, Some(FileKind::SsTable(_) | FileKind::Wal(_)))
        };
        if !paths.iter().all(is_link) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        for path in paths {
            disk.remove(&path)?;
        }
        disk.remove_dir(dir)
    }
}

impl Drop for LinkFolder {
    fn drop(&mut self) {
        let _ = Self::remove(&*self.disk, &self.dir);
    }
}
