//! Folders on the disk: the part of a path that is there, and files that `object_store` has not completed and
//! does not list.

use std::fs;
use std::io;
use std::path::{Component, Path as FsPath, PathBuf, absolute};

/// Splits the path of a folder at the end of the part that is there. Returns that part, without links,
/// and the rest.
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

/// Removes files `OBJECT#NUMBER` of a folder if `is_left` returns true for the name of the object. In
/// such a file `object_store` collects an object until it is complete. Returns the number of removed files.
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
