//! What is wrong with some bytes, before it is known which file they are from.
//!
//! Decoders of parts (blocks, filters, footers) see slices only and answer with
//! [`Damage`]; whoever read the bytes adds the path and the offset, and so the
//! hot path carries neither.

use std::path::Path;

use crate::error::Error;

/// What a decoder expected and what it found.
#[derive(Debug)]
pub(super) struct Damage(pub(super) String);

impl Damage {
    /// The error to give to callers: these bytes are at `offset` of `path`.
    pub(super) fn at(self, path: &Path, offset: u64) -> Error {
        Error::corruption(path, offset, self.0)
    }
}
