//! Reading of stored blocks from a file, into memory that the thread keeps.

use std::cell::Cell;
use std::path::Path;

use bytes::Bytes;

use super::compression::{unseal, unseal_into};
use super::file_id::FileId;
use super::handle::BlockHandle;
use super::read_at::read_at;
use crate::error::Result;
use crate::file_system::ReadFile;

/// A stored block of at most this length is read into memory that the thread keeps, so that reading
/// it costs no allocation. Most stored blocks are shorter.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reads one stored block, which must lie within the file, checks its checksum, and returns its
/// uncompressed payload.
pub(super) fn read_block(
    file: &dyn ReadFile,
    path: &Path,
    id: FileId,
    handle: BlockHandle,
) -> Result<Bytes> {
    read_block_into(file, path, id, handle, Bytes::new())
}

/// Does the same as [`read_block`], and puts the payload into the memory of `spare` if the payload
/// fits and nothing else refers to that memory.
pub(super) fn read_block_into(
    file: &dyn ReadFile,
    path: &Path,
    id: FileId,
    handle: BlockHandle,
    spare: Bytes,
) -> Result<Bytes> {
    let place = id.at(handle.offset);
    let payload = if handle.len as usize > SCRATCH_BYTES_MAX {
        let mut stored = vec![0; handle.len as usize];
        read_at(file, path, &mut stored, handle.offset)?;
        unseal(stored.into(), place)
    } else {
        with_stored(handle, |stored| {
            read_at(file, path, stored, handle.offset)?;
            Ok(unseal_into(stored, place, spare))
        })?
    };
    payload.map_err(|damage| damage.at(path, handle.offset))
}

/// Calls `read` with a buffer for the stored block at `handle`, which must lie in the file. The
/// thread keeps the buffer for later calls if the block has at most [`SCRATCH_BYTES_MAX`].
pub(super) fn with_stored<T>(
    handle: BlockHandle,
    read: impl FnOnce(&mut [u8]) -> Result<T>,
) -> Result<T> {
    let len = handle.len as usize;
    if len > SCRATCH_BYTES_MAX {
        return read(&mut vec![0; len]);
    }
    // Taken out: the file system is not ours, and may read a block itself.
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let done = read(&mut scratch[..len]);
    SCRATCH.set(scratch);
    done
}
