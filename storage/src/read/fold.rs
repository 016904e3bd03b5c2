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
use crate::key::{Kind, ReadTime, SeqNo, Version};
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
    /// A put that is expired for some of the readers and not for others.
    Undecided,
}

impl<'a> Fold<'a> {
    #[inline]
    pub(crate) fn new(read_time: ReadTime<'a>) -> Self {
        Self {
            read_time,
            hidden_below: SeqNo::ZERO,
            operands: Vec::new(),
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

    /// Adds the next older version. Returns true if it is the base, after which no version must be
    /// added.
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

    /// Returns the number of operands that were found.
    pub(crate) fn operands(&self) -> usize {
        self.operands.len()
    }

    /// Folds all operands except the `newer` newest ones, and the base below them if it was
    /// reached; there must be more than `newer` operands. Returns `None` and changes nothing if the
    /// operands cannot be folded.
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

    /// Returns the value. To be called once the base is reached, or there are no more versions.
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

    /// Returns the collected merge operands, newest first, and the put, deletion or nothing that
    /// they are to be applied to.
    pub(crate) fn into_parts(self) -> (Vec<Bytes>, Base) {
        let base = match self.base {
            Base::Open if self.is_covered() => Base::Nothing,
            base => base,
        };
        (self.operands, base)
    }
}
