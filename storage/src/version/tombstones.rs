//! The range tombstones of one source of a table: of a memtable or of a run.

use std::sync::Arc;

use crate::key::{KeyRange, RangeTombstone, RangeTombstones, SeqNo};
use crate::memtable::DeletedRanges;
use crate::mutation::{self, Mutation};

#[derive(Debug, Clone)]
pub(crate) enum Tombstones {
    OfMemtable(Arc<DeletedRanges>),
    OfRun(Arc<RangeTombstones>),
}

impl Tombstones {
    /// Returns the sequence number of the newest tombstone over `key` that is not above `seq`;
    /// `None` if there is none.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        match self {
            Self::OfMemtable(ranges) => ranges.covering(key, seq),
            Self::OfRun(tombstones) => tombstones.covering(key, seq),
        }
    }

    /// Returns whether tombstones with numbers above `largest_seq`, and up to `seq`, cover all keys
    /// of `range`. If so, a reader at `seq` sees none of the versions there that are numbered up to
    /// `largest_seq`. May return false even if they do cover the range: if many of them overlap it
    /// or, in a memtable, if tombstones of different parts of its structure cover it only together.
    pub(crate) fn hide(&self, range: &KeyRange, largest_seq: SeqNo, seq: SeqNo) -> bool {
        let older = Mutation::LeaveOutRunsAboveRangeTombstones;
        let largest_seq = mutation::replace(largest_seq, older, SeqNo::ZERO);
        let seq = mutation::replace(seq, Mutation::LeaveOutRunsOfSnapshots, SeqNo::MAX);
        match self {
            Self::OfMemtable(ranges) => ranges.hide(range, largest_seq, seq),
            Self::OfRun(tombstones) => tombstones.hide(range, largest_seq, seq),
        }
    }

    /// Returns all tombstones, in no order.
    pub(crate) fn list(&self) -> Vec<RangeTombstone> {
        match self {
            Self::OfMemtable(ranges) => ranges.iter().collect(),
            Self::OfRun(tombstones) => tombstones.iter().collect(),
        }
    }
}
