//! Ascending bounds, in memory: which of the blocks that they part can hold a version.
//!
//! In columns, nine bytes for each:
//!
//! ```text
//!   bounds   user0017   user0042   user01   user0100…, 7
//!   heads    0017       0042       01       0100…        after "user"
//!   lengths  4          4          2        long
//! ```
//!
//! A search halves the heads, eight bytes of each bound as a number, which lie close
//! together; halving the keys themselves would miss the processor's caches at every
//! step (nearly a third of a point read, measured). The few bounds that a head cannot
//! hold stand beside the columns.

use std::cmp::Ordering;

use super::block::common_prefix_len;
use crate::key::{SeqNo, compare_versions};

/// The number of bytes of a key that are kept as an integer (its head), to be compared fast.
const HEAD_BYTES: usize = size_of::<u64>();
/// The value in `lengths` for a bound that `heads` cannot hold whole: its key has more than
/// [`HEAD_BYTES`] bytes behind the common prefix, or its sequence number is not 0. Such a bound is
/// in `long`.
const LONG: u8 = u8::MAX;

/// The bound of a block, as a key and a sequence number. The bound is not below the last version of
/// the block, and below the first version of the next block.
pub(super) type Bound = (Vec<u8>, SeqNo);

/// The ascending bounds of neighbouring blocks.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The prefix that all bounds have in common.
    prefix: Box<[u8]>,
    /// The first bytes of each bound behind the common prefix, as an integer; ascending.
    heads: Box<[u64]>,
    /// For each bound, the number of bytes of its key behind the common prefix, all of which are in
    /// `heads`; [`LONG`] for a bound that `heads` cannot hold whole.
    lengths: Box<[u8]>,
    /// The full form of each bound whose length is [`LONG`], ascending by position among all
    /// bounds.
    long: Box<[LongBound]>,
}

#[derive(Debug)]
struct LongBound {
    position: usize,
    key: Box<[u8]>,
    seq: SeqNo,
}

impl Bounds {
    /// Stores these bounds, which must ascend, in columns.
    pub(super) fn new<'a>(bounds: impl Iterator<Item = (&'a [u8], SeqNo)> + Clone) -> Self {
        let Some((first, _)) = bounds.clone().next() else {
            return Self::default();
        };
        let last = bounds.clone().last().map_or(first, |(key, _)| key);
        let prefix_bytes = common_prefix_len(first, last);
        let mut long = Vec::new();
        let mut length = |(position, (key, seq)): (usize, (&[u8], SeqNo))| {
            let bytes = key.len() - prefix_bytes;
            if bytes <= HEAD_BYTES && seq == SeqNo::ZERO {
                return bytes as u8;
            }
            long.push(LongBound {
                position,
                key: key.into(),
                seq,
            });
            LONG
        };
        Self {
            prefix: first[..prefix_bytes].into(),
            lengths: bounds.clone().enumerate().map(&mut length).collect(),
            heads: bounds.map(|(key, _)| head(&key[prefix_bytes..])).collect(),
            long: long.into(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let long = self.long.iter().map(|bound| bound.key.len());
        self.prefix.len()
            + size_of_val(&*self.heads)
            + self.lengths.len()
            + size_of_val(&*self.long)
            + long.sum::<usize>()
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns the position of the first bound that is not below `(key, seq)`; [`Self::len`] if all
    /// bounds are below.
    pub(super) fn position(&self, key: &[u8], seq: SeqNo) -> usize {
        let (start, rest) = key.split_at(self.prefix.len().min(key.len()));
        match start.cmp(&self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let head = head(rest);
        let from = self.heads.partition_point(|other| *other < head);
        if self.heads.get(from) != Some(&head) {
            return from;
        }
        let (mut low, mut high) = (from, from);
        high += self.heads[from..].partition_point(|other| *other == head);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_below(middle, key, rest, seq) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// Returns whether the bound at `position` is below `(key, seq)`. `rest` is the part of `key`
    /// behind the common prefix of all bounds.
    fn is_below(&self, position: usize, key: &[u8], rest: &[u8], seq: SeqNo) -> bool {
        match self.lengths[position] {
            LONG => {
                let bound = self.long(position);
                compare_versions((&bound.key, bound.seq), (key, seq)).is_lt()
            }
            // No version is below its number, 0.
            bytes => self.heads[position].to_be_bytes()[..bytes.into()] < *rest,
        }
    }

    fn long(&self, position: usize) -> &LongBound {
        let at = self
            .long
            .binary_search_by_key(&position, |bound| bound.position);
        &self.long[at.expect("its length says that it is there")]
    }

    /// Returns the bound at a position below [`Self::len`].
    pub(super) fn get(&self, position: usize) -> Bound {
        match self.lengths[position] {
            LONG => {
                let bound = self.long(position);
                (bound.key.to_vec(), bound.seq)
            }
            bytes => {
                let head = self.heads[position].to_be_bytes();
                ([&self.prefix, &head[..bytes.into()]].concat(), SeqNo::ZERO)
            }
        }
    }
}

/// Returns the first eight bytes of `rest`, padded with zeros, as a number that sorts as the bytes
/// do. Of two keys the one with the smaller head is smaller; if the heads are equal, the keys
/// decide.
fn head(rest: &[u8]) -> u64 {
    match rest.first_chunk::<HEAD_BYTES>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; HEAD_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}
