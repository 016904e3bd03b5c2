//! The fold of the versions of one key into its value: the one mechanism by which gets,
//! iterators, flushes and compactions read a key.
//!
//! ```text
//!   versions, newest first     9 merge   7 merge   4 put   2 delete
//!                              └─ operands ─┘      └ base; nothing below counts
//! ```
//!
//! Versions are taken newest first until one is a *base*: a put, a tombstone, a
//! put that expired, or the edge of a range tombstone, below which all is
//! hidden. The value is the operands folded onto the base.

use bytes::Bytes;

use crate::error::Result;
use crate::key::expiry::{Verdict, split};
use crate::key::{Kind, ReadTime, SeqNo, UNFOLDED_BYTES_MAX, Version};
use crate::read::Merger;

/// The versions of one key that a reader has found so far.
#[derive(Debug)]
pub(crate) struct Fold<'a> {
    read_time: ReadTime<'a>,
    /// The sequence number below which versions are under a range tombstone; 0 if no range
    /// tombstone covers the key.
    hidden_below: SeqNo,
    /// The operands found so far, newest first.
    operands: Vec<Bytes>,
    /// The sum of the lengths of `operands`.
    operand_bytes: usize,
    base: Base,
}

/// The version that a key's merge operands are applied to: the newest older version that is not an
/// operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    /// Not known yet: the put or deletion may be among versions that are not read yet.
    Open,
    Value(Bytes),
    /// No value: the key was deleted, or its put expired.
    Nothing,
    /// A put that is expired for some of the readers and not for others. Occurs only in a fold for
    /// several readers at once, as in flushes and merges.
    Undecided,
}

impl<'a> Fold<'a> {
    #[inline]
    pub(crate) fn new(read_time: ReadTime<'a>) -> Self {
        Self {
            read_time,
            hidden_below: SeqNo::ZERO,
            operands: Vec::new(),
            operand_bytes: 0,
            base: Base::Open,
        }
    }

    /// Records that a range tombstone with this sequence number covers the key.
    pub(crate) fn hide_below(&mut self, seq: SeqNo) {
        self.hidden_below = self.hidden_below.max(seq);
    }

    /// Returns whether a range tombstone covers the key.
    pub(crate) fn is_covered(&self) -> bool {
        self.hidden_below > SeqNo::ZERO
    }

    /// Returns the sequence number below which versions are under a range tombstone; 0 if no range
    /// tombstone covers the key.
    pub(crate) fn hidden_below(&self) -> SeqNo {
        self.hidden_below
    }

    /// Adds the next older version. Returns true if no older version matters: this version is the
    /// base, or a range tombstone hides it. Then no version may be added any more.
    #[inline]
    pub(crate) fn take(&mut self, version: Version) -> bool {
        debug_assert_eq!(self.base, Base::Open, "the base is the last one");
        self.base = if version.seq < self.hidden_below {
            Base::Nothing
        } else {
            match version.kind {
                Kind::Put => Base::Value(version.value),
                Kind::Delete => Base::Nothing,
                Kind::Merge => {
                    self.operand_bytes += version.value.len();
                    self.operands.push(version.value);
                    return false;
                }
                Kind::ExpiringPut => {
                    let (expiry_ms, value) = split(&version.value);
                    match self.read_time.verdict(expiry_ms) {
                        Verdict::Live => Base::Value(value),
                        Verdict::Expired => Base::Nothing,
                        Verdict::Undecided => Base::Undecided,
                    }
                }
            }
        };
        true
    }

    /// Adds the next older version as [`Self::take`] does, but makes room for it first
    /// ([`Self::make_room`]), so that the operands take a bounded number of bytes. Also returns
    /// true if there is no room because the operands cannot be folded. Then no version may be added
    /// any more, and [`Self::finish`] returns the error.
    #[inline]
    pub(crate) fn take_bounded(&mut self, version: Version, key: &[u8], merger: &Merger) -> bool {
        !self.make_room(version.value.len(), key, merger) || self.take(version)
    }

    /// Folds the operands found so far into one if they and `more` bytes exceed
    /// [`UNFOLDED_BYTES_MAX`]. Returns false if they cannot be folded. Must not be called once the
    /// base is reached.
    #[inline]
    pub(crate) fn make_room(&mut self, more: usize, key: &[u8], merger: &Merger) -> bool {
        let is_full = self.operands.len() > 1 && self.operand_bytes + more > UNFOLDED_BYTES_MAX;
        !is_full || self.fold_behind(0, key, merger).is_some()
    }

    /// Returns the number of operands that this fold holds. Operands that were folded into one
    /// count as one.
    pub(crate) fn operands(&self) -> usize {
        self.operands.len()
    }

    /// Folds all operands except the `newer` newest ones, and the base below them if it was
    /// reached; there must be more than `newer` operands. Returns the result: a put if the base was
    /// reached, or else an operand. Returns `None` and changes nothing if the operands cannot be
    /// folded.
    pub(crate) fn fold_behind(
        &mut self,
        newer: usize,
        key: &[u8],
        merger: &Merger,
    ) -> Option<(Kind, Bytes)> {
        let (base, kind) = match &self.base {
            Base::Open => (None, Kind::Merge),
            Base::Value(value) => (Some(value.clone()), Kind::Put),
            Base::Nothing => (None, Kind::Put),
            Base::Undecided => return None,
        };
        let folded = merger.fold(key, &self.operands[newer..], base).ok()?;
        self.operands.truncate(newer);
        match kind {
            Kind::Merge => self.operands.push(folded.clone()),
            _ => self.base = Base::Value(folded.clone()),
        }
        self.operand_bytes = self.operands.iter().map(Bytes::len).sum();
        Some((kind, folded))
    }

    /// Returns the value of the versions found so far, and folds their operands; `Some(None)` if
    /// there is no value. Returns `None` and changes nothing if the operands cannot be folded.
    pub(crate) fn so_far(&mut self, key: &[u8], merger: &Merger) -> Option<Option<Bytes>> {
        let is_based = self.base != Base::Open;
        if self.operands.len() > 1 || is_based && !self.operands.is_empty() {
            self.fold_behind(0, key, merger)?;
        }
        let value = match &self.base {
            Base::Open => self.operands.first().filter(|_| merger.is_known()),
            Base::Value(value) => Some(value),
            Base::Nothing => None,
            Base::Undecided => return None,
        };
        match value {
            None if !self.operands.is_empty() => None,
            value => Some(value.cloned()),
        }
    }

    /// Returns the value of the key; `None` if it has none. To be called once the base is reached,
    /// or there are no more versions.
    ///
    /// # Errors
    /// As [`Merger::fold`].
    #[inline]
    pub(crate) fn finish(self, key: &[u8], merger: &Merger) -> Result<Option<Bytes>> {
        let base = match self.base {
            Base::Value(value) => Some(value),
            Base::Open | Base::Nothing => None,
            Base::Undecided => unreachable!("a reader judges at one time"),
        };
        if self.operands.is_empty() {
            return Ok(base);
        }
        merger.fold(key, &self.operands, base).map(Some)
    }

    /// Returns the operands found, newest first, and the base that they are to be applied to.
    /// Without any other base, a range tombstone over the key makes the base [`Base::Nothing`].
    pub(crate) fn into_parts(self) -> (Vec<Bytes>, Base) {
        let base = match self.base {
            Base::Open if self.is_covered() => Base::Nothing,
            base => base,
        };
        (self.operands, base)
    }
}
