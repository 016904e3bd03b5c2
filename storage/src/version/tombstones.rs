//! The range tombstones of one source of a table: of a memtable or of a run.

use std::sync::Arc;

use crate::key::{RangeTombstone, RangeTombstones, SeqNo};
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

    /// All tombstones, in no order.
    pub(crate) fn list(&self) -> Vec<RangeTombstone> {
        match self {
            Self::OfMemtable(ranges) => ranges.iter().collect(),
            Self::OfRun(tombstones) => tombstones.iter().collect(),
        }
    }
}
