//! A description of damaged bytes, without the file that they are from.
//!
//! Decoders of parts (blocks, filters, footers) see slices only and return [`Damage`]; the
//! code that read the bytes adds the path and the offset, so the hot path carries neither.

use std::path::Path;

use crate::error::Error;

/// A description of damaged bytes: the content that a decoder expected, and the content that it
/// found.
#[derive(Debug)]
pub(super) struct Damage(pub(super) String);

impl Damage {
    /// Converts the damage to the error for callers: the damaged bytes are at `offset` of the file
    /// `path`.
    pub(super) fn at(self, path: &Path, offset: u64) -> Error {
        Error::corruption(path, offset, self.0)
    }
}
