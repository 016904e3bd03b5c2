//! A file of a run, as those see it who decide what is merged.

use crate::key::KeyRange;

/// A file of a run, as far as a picker needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileShape {
    /// From its first key to its last.
    pub keys: KeyRange,
    /// Bytes of the file.
    pub bytes: u64,
}
