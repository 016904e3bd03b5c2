//! The range tombstones of a memtable.
//!
//! Up to hundreds of thousands of them arrive, in about the order of their sequence numbers.
//! Readers at any sequence number need the newest one over a key at once. The last few are kept in
//! the order of their arrival. The others are sorted, in indexes of several classes; an index of a
//! class has four times as many as one of the class before:
//!
//! ```text
//!   tail       indexes
//!   [< 16]     [16] [16]   [64]   [256] [256] [256]   ..   [16384] [16384] ..
//! ```
//!
//! 16 tombstones of the tail become an index, and four indexes of a class become one of the next
//! class, up to the largest. So each tombstone is sorted six times at most, a writer never sorts
//! more than 16384 at once, and a reader searches at most 21 sorted lists for 100,000 tombstones,
//! and one more for each further 16384. (This is the logarithmic method of Bentley and Saxe, 1980.)
//!
//! A [`DeletedRanges`] never changes: an insertion makes a new one, which shares the indexes. So
//! readers of the memtable never wait.

use std::sync::Arc;

use super::tombstone_index::TombstoneIndex;
use crate::key::{KeyRange, RangeTombstone, SeqNo};

/// The number of tombstones at which the tail (the list of those that arrived last) becomes a
/// sorted index. A lookup compares its key with each tombstone of the tail.
const TAIL_LEN: usize = 16;
/// The number of indexes (sorted lists of tombstones) of one size class that are merged into an
/// index of the next larger class.
const FAN_IN: usize = 4;
/// The largest number of tombstones in an index. Indexes of this size are not merged any more: to sort
/// this many takes a writer a few milliseconds, and to sort more would take longer.
const INDEX_LEN_MAX: usize = TAIL_LEN * FAN_IN.pow(5);

/// The memory, in bytes, that a key of a tombstone takes in addition to the bytes of the key: a
/// reference count, and the overhead of an allocation.
const KEY_OVERHEAD_BYTES: usize = 48;

/// The range tombstones of a memtable. Readers at any sequence number look them up by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeletedRanges {
    /// The tombstones that arrived last, oldest first.
    tail: Vec<Arc<RangeTombstone>>,
    /// The tombstones before those in `tail`, as sorted indexes of several size classes, the
    /// largest class first.
    indexes: Vec<Arc<TombstoneIndex>>,
    /// The memory of the keys of all tombstones, in bytes.
    key_bytes: usize,
    index_bytes: usize,
}

impl DeletedRanges {
    /// Returns these tombstones and one more, whose range must not be empty.
    pub(super) fn with(&self, tombstone: RangeTombstone) -> Self {
        let mut next = self.clone();
        let end = tombstone.range.end.as_ref();
        for key in std::iter::once(&tombstone.range.start).chain(end) {
            next.key_bytes += key.len() + KEY_OVERHEAD_BYTES;
        }
        next.tail.push(Arc::new(tombstone));
        if next.tail.len() == TAIL_LEN {
            next.sort_tail();
        }
        next
    }

    /// Makes an index of the tail (the list of the tombstones that arrived last). If the new index
    /// would be the [`FAN_IN`]th of its size, all of this size become one larger index instead; this
    /// repeats for the larger sizes, up to [`INDEX_LEN_MAX`].
    fn sort_tail(&mut self) {
        let mut len = self.tail.len();
        let mut at = self.indexes.len();
        while len < INDEX_LEN_MAX {
            let same = self.indexes[..at].iter().rev();
            let same = same.take_while(|index| index.len() == len).count();
            if same < FAN_IN - 1 {
                break;
            }
            at -= same;
            len *= FAN_IN;
        }
        let index = TombstoneIndex::build(&self.indexes[at..], &self.tail);
        self.tail.clear();
        self.indexes.truncate(at);
        self.indexes.push(Arc::new(index));
        self.index_bytes = self.indexes.iter().map(|index| index.bytes()).sum();
    }

    /// Returns the largest sequence number `<= seq` of a tombstone over `key`; `None` if there is
    /// none.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        let tail = self.tail.iter();
        let tail = tail.filter(|t| t.seq <= seq && t.range.contains(key));
        let mut newest = tail.map(|tombstone| tombstone.seq).max();
        for index in self.indexes.iter().rev() {
            if newest.is_none_or(|newest| index.newest() > newest) {
                newest = newest.max(index.covering(key, seq));
            }
        }
        newest
    }

    /// Returns true only if tombstones cover every key of `range` so that a reader at `seq` sees none
    /// of its versions up to `largest_seq`: the tombstones have numbers above `largest_seq`, and not
    /// above `seq`. Finds this only if one tombstone of the tail, or the newest tombstones of one
    /// index, cover the whole range, and at most [`PIECES_MAX`](crate::key::PIECES_MAX) intervals of
    /// the index overlap it. Otherwise returns false, although the range may be covered.
    pub(crate) fn hide(&self, range: &KeyRange, largest_seq: SeqNo, seq: SeqNo) -> bool {
        let hides = |t: &Arc<RangeTombstone>| {
            largest_seq < t.seq && t.seq <= seq && t.range.includes(range)
        };
        let mut indexes = self.indexes.iter();
        self.tail.iter().any(hides) || indexes.any(|index| index.hide(range, largest_seq, seq))
    }

    /// Returns all tombstones, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        let tail = self.tail.iter().map(|tombstone| (**tombstone).clone());
        tail.chain(self.indexes.iter().flat_map(|index| index.iter()))
    }

    /// Returns the memory that all range tombstones take, in bytes, within a few percent.
    pub(super) fn bytes(&self) -> usize {
        let tail = self.tail.len() * (size_of::<RangeTombstone>() + 4 * size_of::<usize>());
        self.key_bytes + self.index_bytes + tail
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
