//! The room of a page for more bytes, and the memory of what it buffers.

use crate::call::ResponseMemory;
use crate::error::{Result, result_too_large};

/// The approximate overhead, in bytes, of a buffered row, of a cell in such a row, or of the state
/// of an aggregate.
pub(super) const KEPT_BYTES: usize = 64;

/// Once this many bytes were copied, they are charged to the statement, and the read takes memory
/// for them. One call for each small cell would cost too much. A row that is buffered for sorting
/// and a group take memory once they have this many bytes.
pub(super) const COPIED_BYTES_MIN: usize = 4096;

/// The room of a page for more bytes.
pub(super) struct Room<'s> {
    pub taken_bytes: usize,
    /// The [`Limits::result_bytes`](crate::read::Limits::result_bytes).
    pub bytes_max: usize,
    pub memory: Option<&'s dyn ResponseMemory>,
}

impl Room<'_> {
    /// Checks that `bytes` more bytes fit.
    pub(super) fn check(&self, bytes: usize) -> Result<()> {
        if bytes > self.bytes_max.saturating_sub(self.taken_bytes) {
            return Err(result_too_large(self.bytes_max));
        }
        Ok(())
    }

    /// Takes memory for `bytes` more bytes.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        let Some(memory) = self.memory else {
            return Ok(());
        };
        memory.grow(self.taken_bytes + bytes)
    }

    /// Checks that a row or group with `bytes` bytes so far fits, and takes memory for it if it is
    /// large. To be called after each value of the row, which may have very many values.
    pub(super) fn reserve(&self, bytes: usize) -> Result<()> {
        self.check(bytes)?;
        if bytes >= COPIED_BYTES_MIN {
            self.take(bytes)?;
        }
        Ok(())
    }
}

/// Returns the approximate memory of a buffered cell in bytes.
pub(super) fn kept_bytes(cell: &Option<Vec<u8>>) -> usize {
    KEPT_BYTES + cell.as_ref().map_or(0, Vec::len)
}
