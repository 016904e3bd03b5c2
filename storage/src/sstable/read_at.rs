//! Positioned reads whose errors name file and offset.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file_system::ReadFile;

/// Fills `buf` with the bytes of the file from `offset` on.
///
/// # Errors
/// `Corruption` if the file ends before `buf` is full; `Io`.
pub(super) fn read_at(file: &dyn ReadFile, path: &Path, buf: &mut [u8], offset: u64) -> Result<()> {
    fill(file, path, buf, offset, false)
}

/// Does the same as [`read_at`]. With `once` the file system is advised that the bytes will not be
/// read again soon.
pub(super) fn fill(
    file: &dyn ReadFile,
    path: &Path,
    buf: &mut [u8],
    offset: u64,
    once: bool,
) -> Result<()> {
    let read = if once {
        file.read_once_exact_at(buf, offset)
    } else {
        file.read_exact_at(buf, offset)
    };
    read.map_err(|e| failure(e, path, buf.len(), offset))
}

#[cold]
fn failure(e: io::Error, path: &Path, bytes: usize, offset: u64) -> Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        let detail = format!("the file ends within the next {bytes} bytes");
        Error::corruption(path, offset, detail)
    } else {
        Error::io("read", path)(e)
    }
}
