//! The one interface over everything sorted: memtables, SSTables, runs.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::{Kind, SeqNo, Version};

/// A position in a sorted sequence of versions (order: see [`crate::key`]).
///
/// A cursor starts out nowhere (`valid()` is false) until a seek. After an
/// error it is nowhere again; a later seek may succeed.
///
/// `key`, `seq`, `kind`, `value` and `version` may be called only while `valid()`, the last three
/// only without `damage()`.
pub(crate) trait Cursor: Send {
    /// Returns whether the cursor stands on a version, or on damage.
    fn valid(&self) -> bool;
    /// Returns the damage at which the cursor stands, instead of a version. The versions from here
    /// on cannot be read. `key` and `seq` are at or before the first version that may follow
    /// (backwards: at or after the last that may precede). There is no `kind` or `value`, and a
    /// step fails.
    #[inline]
    fn damage(&self) -> Option<&Error> {
        None
    }
    /// Moves to the first version `>= (key, seq)`: the newest version of `key`
    /// not newer than `seq`, or the first of the next key.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    /// Moves to the last version `< (key, seq)`.
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the next version. Panics when not valid.
    fn next(&mut self) -> Result<()>;
    /// Moves to the version before. Panics when not valid.
    fn prev(&mut self) -> Result<()>;
    /// Returns the user key.
    fn key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
    fn kind(&self) -> Kind;
    /// Returns the value (empty for a tombstone), without a copy where possible.
    fn value(&self) -> Bytes;
    #[inline]
    fn version(&self) -> Version {
        Version {
            seq: self.seq(),
            kind: self.kind(),
            value: self.value(),
        }
    }
}
