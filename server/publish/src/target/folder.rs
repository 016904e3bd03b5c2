//! Folders on the disk: the part of a path that is there, and files that `object_store` has not completed and
//! does not list.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path as FsPath, PathBuf, absolute};

use super::TargetError;

/// Splits the path of a folder into the part that exists, with symbolic links resolved, and the part that
/// does not exist yet.
///
/// # Errors
/// If the part that exists is a file, or if there is a `..` in the part that does not exist.
pub(super) fn split_absent(path: &FsPath) -> io::Result<(PathBuf, PathBuf)> {
    let path = absolute(path)?;
    let there = path.ancestors().find(|part| part.exists());
    let there = there.ok_or(io::ErrorKind::NotFound)?;
    if !there.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let absent = path.strip_prefix(there).map_err(io::Error::other)?;
    let is_name = |part| matches!(part, Component::Normal(_));
    if !absent.components().all(is_name) {
        return Err(io::Error::other(
            "its path has a '..' behind an absent folder",
        ));
    }
    Ok((fs::canonicalize(there)?, absent.to_path_buf()))
}

/// Returns the location of a folder, as metadata names it.
///
/// # Errors
/// If the path has a `?`, a `#` or a control character, or is not UTF-8. Some readers would look for another
/// folder: the parser of URLs in PyIceberg and Polars ends a path at `?` and `#`, and leaves out tabs and
/// line breaks.
pub(super) fn url_of(folder: &FsPath) -> Result<String, TargetError> {
    let is_lost = |of_path: char| of_path.is_control() || matches!(of_path, '?' | '#');
    let path = folder.to_str().filter(|path| !path.contains(is_lost));
    path.map(|path| format!("file://{path}")).ok_or_else(|| {
        TargetError::Refused(format!(
            "{}: the path of a target has no '?', no '#', no control characters and no bytes other than UTF-8, \
             because metadata names files by URLs, and readers would not find them; choose another folder",
            folder.display()
        ))
    })
}

/// Removes files called `OBJECT#NUMBER` directly in a folder, if `is_left` returns true for the
/// text `OBJECT`. In such a file, `object_store` collects the bytes of an object until the object
/// is complete. Returns the number of removed files; 0 if there is no such folder.
pub(super) fn remove_staged(folder: &FsPath, is_left: impl Fn(&str) -> bool) -> io::Result<usize> {
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        files => files?,
    };
    let mut removed = 0;
    for file in files {
        let file = file?;
        let name = file.file_name();
        let object = name.to_str().and_then(|name| name.split_once('#'));
        if object.is_some_and(|(object, _)| is_left(object)) {
            match fs::remove_file(file.path()) {
                // Its publisher has ended it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => {
                    done?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

/// Writes the names in a folder to the disk, so that a file that was removed from it stays removed after a
/// power loss. Does nothing if there is no such folder.
pub(super) fn sync_names(folder: &FsPath) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_all(),
    }
}
