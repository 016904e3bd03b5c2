//! Copying a file through an open [`FileSystem`].

use std::io;
use std::path::Path;

use super::{FileSystem, ReadFile, WriteFile};
use crate::mutation::{self, Mutation};

/// Bytes in memory at a time: more saves nothing, and a part of what is freed stays
/// with the allocator.
const BUFFER_BYTES: usize = 128 << 10;

/// Copies the first `len` bytes of a file into a new one and makes its bytes
/// durable; its name is after a [`FileSystem::sync_dir`].
///
/// # Errors
/// `ErrorKind::UnexpectedEof` when the file is shorter; what the system says.
/// The new file is left as far as it came.
pub(crate) fn copy(disk: &dyn FileSystem, from: &Path, to: &Path, len: u64) -> io::Result<()> {
    copy_open(&*disk.open_read(from)?, disk, to, len)
}

/// [`copy`] of a file that is open.
pub(crate) fn copy_open(
    source: &dyn ReadFile,
    disk: &dyn FileSystem,
    to: &Path,
    len: u64,
) -> io::Result<()> {
    copy_into(source, &mut *disk.create(to)?, len)
}

/// [`copy`] of a file that is open into one that is new.
pub(crate) fn copy_into(
    source: &dyn ReadFile,
    target: &mut dyn WriteFile,
    len: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(len).unwrap_or(BUFFER_BYTES))];
    let mut at = 0;
    while at < len {
        let part = buffer
            .len()
            .min(usize::try_from(len - at).unwrap_or(usize::MAX));
        source.read_exact_at(&mut buffer[..part], at)?;
        target.append(&buffer[..part])?;
        at += part as u64;
    }
    mutation::unless(Mutation::CopyWithoutSync, || target.sync())
}
