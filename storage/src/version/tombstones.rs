//! The range tombstones of one source of a table: of a memtable or of a run.

use std::sync::Arc;

use crate::key::{KeyRange, RangeTombstone, RangeTombstones, SeqNo};
use crate::memtable::DeletedRanges;

#[derive(Debug, Clone)]
pub(crate) enum Tombstones {
    OfMemtable(Arc<DeletedRanges>),
    OfRun(Arc<RangeTombstones>),
}

impl Tombstones {
    /// The sequence number of the newest tombstone over `key` that is `<= seq`.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        match self {
            Self::OfMemtable(ranges) => ranges.covering(key, seq),
            Self::OfRun(tombstones) => tombstones.covering(key, seq),
        }
    }

    /// Returns whether tombstones with numbers above `newest`, and up to `seq`, cover all keys of
    /// `range`: then a reader at `seq` sees no version there that has a number up to `newest`. May
    /// return false although several tombstones of a memtable cover the range together.
    pub(crate) fn hide(&self, range: &KeyRange, newest: SeqNo, seq: SeqNo) -> bool {
        let hides = |tombstone| newest < tombstone && tombstone <= seq;
        match self {
            Self::OfMemtable(ranges) => ranges.hide(range, hides),
            Self::OfRun(tombstones) => tombstones.hide(range, hides),
        }
    }

    /// All tombstones, in no order.
    pub(crate) fn list(&self) -> Vec<RangeTombstone> {
        match self {
            Self::OfMemtable(ranges) => ranges.iter().collect(),
            Self::OfRun(tombstones) => tombstones.iter().collect(),
        }
    }
}
