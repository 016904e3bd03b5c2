//! The one interface over everything sorted: memtables, SSTables, runs.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::{Kind, SeqNo, Version};

/// A position in a sorted sequence of versions (order: see [`crate::key`]).
///
/// A cursor starts out nowhere (`valid()` is false) until a seek. After an
/// error it is nowhere again; a later seek may succeed.
///
/// `key` and `seq` may be called only while `valid()`; `kind`, `value` and `version` only while, in
/// addition, `damage()` is `None`.
pub(crate) trait Cursor: Send {
    /// Returns whether the cursor stands on a version, or on damage.
    fn valid(&self) -> bool;
    /// Returns the damage if the cursor stands on damage instead of a version. The versions from
    /// here on cannot be read. The position (`key`, `seq`) is then a bound of these versions: if
    /// the cursor moved forwards, none of them is before it; if the cursor moved backwards, none is
    /// after it. There is no `kind` or `value`, and `next` and `prev` fail.
    #[inline]
    fn damage(&self) -> Option<&Error> {
        None
    }
    /// Moves to the first version `>= (key, seq)`: the newest version of `key` that is not newer
    /// than `seq`, or else the first version of the next key. If there is none, the cursor is nowhere.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    /// Moves to the last version `< (key, seq)`. If there is none, the cursor is nowhere.
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the next version; after the last one, the cursor is nowhere. Panics unless `valid()`.
    fn next(&mut self) -> Result<()>;
    /// Moves to the version before; before the first one, the cursor is nowhere. Panics unless
    /// `valid()`.
    fn prev(&mut self) -> Result<()>;
    /// Returns the user key, without the sequence number.
    fn key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
    fn kind(&self) -> Kind;
    /// Returns the value as it is stored (see [`Version::value`]), without a copy where possible.
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
