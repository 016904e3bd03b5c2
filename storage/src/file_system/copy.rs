//! Copying a file through an open [`FileSystem`].

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use super::{FileSystem, ReadFile, WriteFile};
use crate::mutation::{self, Mutation};

/// The size of the buffer, in bytes. A larger buffer copies no faster, and it costs memory even
/// after it is freed, because the allocator keeps a part of it.
const BUFFER_BYTES: usize = 128 << 10;

/// Copies the first `len` bytes of a file into a new one, and makes the new file's bytes durable,
/// but not its name: the caller has to call [`FileSystem::sync_dir`].
///
/// # Errors
/// `ErrorKind::UnexpectedEof` if `from` has fewer than `len` bytes, and the errors of the file
/// system. After an error, the incomplete new file stays.
pub(crate) fn copy(disk: &dyn FileSystem, from: &Path, to: &Path, len: u64) -> io::Result<()> {
    let (source, mut target) = (disk.open_read(from)?, disk.create(to)?);
    let mut step = |_: u64| ControlFlow::Continue(());
    let _done = copy_in_steps(&*source, &mut *target, 0..len, &mut step)?;
    sync_copied(&mut *target)
}

/// Makes the bytes of a copied file durable.
pub(crate) fn sync_copied(target: &mut dyn WriteFile) -> io::Result<()> {
    mutation::unless(Mutation::CopyWithoutSync, || target.sync())
}

/// Appends a part of a file to `target`. Calls `step` after each piece with its length. If `step`
/// returns `Break`, ends early and returns `Break`. The bytes that are read do not stay in the
/// system's cache. The bytes in `target` are not durable before [`sync_copied`].
pub(crate) fn copy_in_steps(
    source: &dyn ReadFile,
    target: &mut dyn WriteFile,
    part: Range<u64>,
    step: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    read_in_steps(source, part, &mut |piece| {
        target.append(piece)?;
        Ok(step(piece.len() as u64))
    })
}

/// Reads a part of a file, and calls `step` with each piece. If `step` returns `Break`, ends early
/// and returns `Break`. The bytes that are read do not stay in the system's cache.
///
/// # Errors
/// The errors of the file (`ErrorKind::UnexpectedEof` if it ends before the part does) and of
/// `step`.
pub(crate) fn read_in_steps(
    source: &dyn ReadFile,
    part: Range<u64>,
    step: &mut dyn FnMut(&[u8]) -> io::Result<ControlFlow<()>>,
) -> io::Result<ControlFlow<()>> {
    let left = |at: u64| usize::try_from(part.end.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut at = part.start;
    let mut buffer = vec![0; BUFFER_BYTES.min(left(at))];
    while at < part.end {
        let block = buffer.len().min(left(at));
        source.read_once_exact_at(&mut buffer[..block], at)?;
        at += block as u64;
        if step(&buffer[..block])?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
