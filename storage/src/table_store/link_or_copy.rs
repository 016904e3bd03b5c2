//! A file of one directory in another: by a second name, or else by a copy.

use std::io;
use std::path::Path;

use super::{Imported, TableFiles};
use crate::error::{Error, Result};
use crate::file_system::copy;

/// Gives the file `from` of `len` bytes, which never changes, the second name `to` by a hard link
/// or, if the disk cannot link it there, copies it to `to`. The bytes of a copy are durable, and
/// the name is durable after a `sync_dir`.
///
/// # Errors
/// [`Error::DiskFull`] names `to`, [`Error::Io`] names `from`.
pub(crate) fn link_or_copy(
    disk: &dyn TableFiles,
    from: &Path,
    to: &Path,
    len: u64,
) -> Result<Imported> {
    if link(disk, from, to)? {
        return Ok(Imported::Linked);
    }
    copy(disk, from, to, len).map_err(failed("copy", from, to))?;
    Ok(Imported::Copied)
}

/// Links a file. Returns false if the disk cannot link this file at `to`.
///
/// # Errors
/// As [`link_or_copy`].
pub(crate) fn link(disk: &dyn TableFiles, from: &Path, to: &Path) -> Result<bool> {
    match disk.link(from, to) {
        Ok(()) => Ok(true),
        Err(e) if has_no_link(&e) => Ok(false),
        Err(e) => Err(failed("link", from, to)(e)),
    }
}

/// Returns whether an error means that the disk cannot make such a link, so that a copy is needed.
/// Some file systems without links return "not permitted".
fn has_no_link(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::CrossesDevices
            | io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::TooManyLinks
    )
}

fn failed(action: &'static str, from: &Path, to: &Path) -> impl FnOnce(io::Error) -> Error {
    // Missing space is an error of the new file; any other error may be of either file.
    move |error| match Error::no_space_or_io(action, to)(error) {
        Error::Io { action, source, .. } => Error::Io {
            action,
            path: from.to_path_buf(),
            source,
        },
        full => full,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::{FaultOp, MemDisk};

    /// Regression: an ingest failed if the file had as many hard links as the file system allows,
    /// where a backup made a copy.
    #[test]
    fn a_file_that_can_have_no_link_there_is_copied() {
        for (kind, way) in [
            (None, Some(Imported::Linked)),
            (Some(io::ErrorKind::CrossesDevices), Some(Imported::Copied)),
            (Some(io::ErrorKind::Unsupported), Some(Imported::Copied)),
            (
                Some(io::ErrorKind::PermissionDenied),
                Some(Imported::Copied),
            ),
            (Some(io::ErrorKind::TooManyLinks), Some(Imported::Copied)),
            (Some(io::ErrorKind::Other), None),
        ] {
            let mem = MemDisk::new();
            mem.create_dir_all(Path::new("/db")).unwrap();
            let (from, to) = (Path::new("/db/a"), Path::new("/db/b"));
            mem.create(from).unwrap().append(b"bytes").unwrap();
            if let Some(kind) = kind {
                mem.fail_next(FaultOp::Link, 1, kind);
            }
            match (link_or_copy(&mem, from, to, 5), way) {
                (Ok(found), Some(way)) => {
                    assert_eq!(found, way, "{kind:?}");
                    assert_eq!(mem.read_all(to).unwrap(), b"bytes");
                }
                (Err(Error::Io { path, .. }), None) => assert_eq!(path, from),
                (found, _) => panic!("{kind:?}: {found:?}"),
            }
        }
    }
}
