//! Reading neighbouring blocks of a table in few large pieces.
//!
//! ```text
//!   asked for   b0   b1   b2   b3   b4   b5   b6   b7   b8 ...
//!   read        [b0] [b1   b2   b3] [b4   b5   b6   b7   b8 ...
//! ```
//!
//! Blocks that were read ahead stay packed until they are requested, so that reading too many
//! costs a copy out of the page cache and no more.

use std::path::Path;

use super::file_id::HEADER_BYTES;
use super::handle::BlockHandle;
use super::read_at::fill;
use crate::error::Result;
use crate::file_system::ReadFile;

/// The length of the first read-ahead, in bytes: two uncompressed blocks of the default size, about
/// as much as a short scan reads. Reading ahead begins with the second requested block, if it is
/// next to the first.
const BYTES_MIN: usize = 8 << 10;

/// The longest read-ahead, in bytes: long enough that the cost of the system call does not matter,
/// and short enough to stay in the processor's second cache until it is unpacked.
const BYTES_MAX: usize = 256 << 10;

/// The largest stored block, in bytes, that is read ahead into the buffer; a larger block is read
/// alone, without the buffer.
pub(super) const BLOCK_BYTES_MAX: u64 = (BYTES_MAX / 2) as u64;

/// A buffer for a scan, which reads more of the file than the requested block: a piece with the
/// blocks that follow or, in a scan backwards, precede. Each piece is twice as long as the one
/// before, up to a maximum, as long as each requested block is next to the one requested before.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// A buffer, whose first `filled` bytes are the bytes of the file from the offset `start` on.
    buffer: Vec<u8>,
    filled: usize,
    start: u64,
    /// The offsets at which the last requested block begins and ends; `None` before the first
    /// request.
    last: Option<(u64, u64)>,
    /// The length of the next piece that is read ahead, in bytes; a longer block is still read
    /// whole.
    bytes: usize,
    bytes_max: usize,
    once: bool,
}

impl ReadAhead {
    /// Creates an empty buffer. With `once` the file system is advised that the data will not be
    /// read again soon.
    pub(super) fn new(once: bool) -> Self {
        Self {
            buffer: Vec::new(),
            filled: 0,
            start: 0,
            last: None,
            bytes: BYTES_MIN,
            bytes_max: BYTES_MAX,
            once,
        }
    }

    /// Sets the largest length of a piece that is read ahead, in bytes. A longer block is still
    /// read whole.
    pub(super) fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Continues in another file, whose data blocks end at `end`. The buffer is emptied. A request
    /// for the new file's first or last data block then counts as next to the last request, so that
    /// the pieces do not become short again.
    pub(super) fn change_file(&mut self, end: u64) {
        self.filled = 0;
        self.last = self.last.is_some().then_some((end, HEADER_BYTES as u64));
    }

    /// Returns the stored bytes of a block of at most [`BLOCK_BYTES_MAX`]. `end` is the offset at
    /// which the last data block of the `file` ends.
    ///
    /// # Errors
    /// `Io`; `Corruption` if the file ends within this block. If only the blocks around it cannot
    /// be read, this is no error.
    pub(super) fn stored(
        &mut self,
        file: &dyn ReadFile,
        path: &Path,
        handle: BlockHandle,
        end: u64,
    ) -> Result<&[u8]> {
        debug_assert!(handle.len <= BLOCK_BYTES_MAX && handle.offset + handle.len <= end);
        if self.range_of(handle).is_none() {
            let (start, bytes) = self.next_piece(handle, end);
            let read_all = self.read(file, path, start, bytes);
            if read_all.is_err() && bytes as u64 > handle.len {
                self.read(file, path, handle.offset, handle.len as usize)?;
            } else {
                read_all?;
            }
        }
        self.last = Some((handle.offset, handle.offset + handle.len));
        let range = self.range_of(handle).expect("it was read");
        Ok(&self.buffer[range])
    }

    /// Returns the stored bytes of a block that is larger than [`BLOCK_BYTES_MAX`]. Neither uses
    /// nor changes the buffer.
    pub(super) fn stored_large(
        &self,
        file: &dyn ReadFile,
        path: &Path,
        handle: BlockHandle,
    ) -> Result<Vec<u8>> {
        let mut stored = vec![0; handle.len as usize];
        fill(file, path, &mut stored, handle.offset, self.once)?;
        Ok(stored)
    }

    /// Returns the place of a block in the buffer; `None` unless the whole block is there.
    fn range_of(&self, handle: BlockHandle) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(handle.len as usize)?;
        (to <= self.filled).then_some(from..to)
    }

    /// Returns the piece to read for a block that is not in the buffer: its offset and its length.
    /// The piece is the block alone, unless the block is next to the last requested one.
    fn next_piece(&mut self, handle: BlockHandle, end: u64) -> (u64, usize) {
        let block_end = handle.offset + handle.len;
        let (follows, precedes) = self.last.map_or((false, false), |(start, end)| {
            (end == handle.offset, start == block_end)
        });
        if !follows && !precedes {
            self.bytes = BYTES_MIN;
            return (handle.offset, handle.len as usize);
        }
        let bytes = (self.bytes as u64).max(handle.len);
        self.bytes = (2 * self.bytes).min(self.bytes_max);
        if follows {
            (handle.offset, bytes.min(end - handle.offset) as usize)
        } else {
            let start = block_end.saturating_sub(bytes);
            (start, (block_end - start) as usize)
        }
    }

    fn read(&mut self, file: &dyn ReadFile, path: &Path, start: u64, bytes: usize) -> Result<()> {
        self.filled = 0;
        if self.buffer.len() < bytes {
            // Not to be copied when it grows.
            self.buffer.clear();
            self.buffer.resize(bytes, 0);
        }
        let buffer = &mut self.buffer[..bytes];
        fill(file, path, buffer, start, self.once)?;
        (self.start, self.filled) = (start, bytes);
        Ok(())
    }
}
