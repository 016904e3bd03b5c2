//! The index of one partition: a bound of each of its data blocks, and where it lies.
//!
//! A bound is not below the data block's last version and below the first of the next; the value of
//! its entry is the block's handle. Because the sequence number counts, the versions of one key may
//! span blocks and a seek still goes to the right one. Between blocks of different keys the bound
//! is just the shortest key that separates them, with the number 0: all versions of a key sort up
//! to its number 0. See the book, Formats: SSTable.
//!
//! In memory it is stored by columns, some 17 bytes for each data block: the bounds, and the
//! offsets at which blocks end.

use bytes::Bytes;

use super::block::common_prefix_len;
use super::block_builder::BlockBuilder;
use super::bounds::{Bound, Bounds};
use super::damage::Damage;
use super::handle::BlockHandle;
use super::index_block::{ENTRY_BYTES_MAX, IndexBlock};
use crate::key::{Kind, SeqNo};

/// The index of a partition in memory; all of it was checked when it was decoded.
#[derive(Debug, Default)]
pub(super) struct Index {
    bounds: Bounds,
    /// The offset of the first data block.
    start: u64,
    /// The offset at which each data block ends and the next one begins.
    ends: Box<[u64]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// The bound of the data block: a key and a sequence number, not below the block's last
    /// version, and below the first version of the next block.
    pub(super) bound: Bound,
    pub(super) handle: BlockHandle,
}

impl Index {
    pub(super) fn memory_bytes(&self) -> usize {
        self.bounds.memory_bytes() + size_of_val(&*self.ends)
    }

    /// Decodes the payload of an index.
    ///
    /// # Errors
    /// `Damage` unless every entry is a restart point, the bounds ascend, and the
    /// values are the handles of blocks that lie one behind the other from `start` on.
    pub(super) fn decode(payload: Bytes, start: u64) -> Result<Self, Damage> {
        let block = IndexBlock::new(payload)?;
        let entries = block.entries()?;
        let mut ends = Vec::with_capacity(entries.len());
        let mut at = start;
        for entry in &entries {
            let handle = BlockHandle::from_varints(entry.value)?;
            at = match handle.end() {
                Some(end) if handle.offset == at => end,
                _ => {
                    return Err(Damage(format!(
                        "the block before ends at {at}, the index has the next at {} with {} \
                         bytes",
                        handle.offset, handle.len
                    )));
                }
            };
            ends.push(at);
        }
        Ok(Self {
            bounds: Bounds::new(entries.iter().map(|entry| (entry.key, entry.seq))),
            start,
            ends: ends.into(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the offset at which the last data block ends.
    pub(super) fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// Returns the position of the data block in which a search for the first version `>= (key,
    /// seq)` begins; [`Self::len`] if all versions are smaller. If the block has only smaller
    /// versions, the first version of the next block is the result. If the partition has versions
    /// of `key` with numbers up to `seq`, the newest of them is in this block.
    pub(super) fn position(&self, key: &[u8], seq: SeqNo) -> usize {
        self.bounds.position(key, seq)
    }

    /// Returns the location of the data block at a position below [`Self::len`].
    pub(super) fn handle(&self, position: usize) -> BlockHandle {
        let offset = match position {
            0 => self.start,
            _ => self.ends[position - 1],
        };
        BlockHandle {
            offset,
            len: self.ends[position] - offset,
        }
    }

    /// Returns the bound of the data block at a position below [`Self::len`]: no version of
    /// the block is above the bound, and all versions of the next block are.
    pub(super) fn bound(&self, position: usize) -> Bound {
        self.bounds.get(position)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = IndexEntry> {
        (0..self.len()).map(|position| IndexEntry {
            bound: self.bound(position),
            handle: self.handle(position),
        })
    }
}

/// Collects the index of a partition being written.
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    value: Vec<u8>,
    /// The last version of the last data block, and the block's handle, until the bound of the
    /// block is known; `None` if there is no such block.
    last: Option<(Vec<u8>, SeqNo, BlockHandle)>,
    /// The offset in the file at which the last data block with a known bound ends. The bound of a
    /// block is known once the next block begins.
    data_end: u64,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self {
            block: BlockBuilder::new(1),
            value: Vec::new(),
            last: None,
            data_end: 0,
        }
    }

    /// Returns an upper bound of the size that the index of the open partition would have if it
    /// were finished now, in bytes before compression.
    pub(super) fn len(&self) -> usize {
        let last = self.last.as_ref();
        self.block.len() + last.map_or(0, |(key, ..)| key.len() + ENTRY_BYTES_MAX)
    }

    /// Returns the number of index entries of the open partition: one for each of its data blocks
    /// but the last, whose upper bound depends on the key with which the next block begins.
    pub(super) fn entries(&self) -> usize {
        self.block.restarts()
    }

    /// Returns the last bound that is known.
    pub(super) fn last_bound(&self) -> (&[u8], SeqNo) {
        self.block.last()
    }

    /// Returns the offset at which the data block of [`Self::last_bound`] ends.
    pub(super) fn data_end(&self) -> u64 {
        self.data_end
    }

    pub(super) fn start_block(&mut self, key: &[u8]) {
        if let Some((last, seq, handle)) = self.last.take() {
            if last == key {
                self.add(&last, seq, handle)
            } else {
                self.add(separator(&last, key), SeqNo::ZERO, handle)
            }
        }
    }

    pub(super) fn end_block(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.last = Some((key.to_vec(), seq, handle));
    }

    /// Ends the last data block; no other may begin.
    pub(super) fn end_blocks(&mut self) {
        if let Some((last, seq, handle)) = self.last.take() {
            self.add(&last, seq, handle);
        }
    }

    fn add(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.value.clear();
        handle.put_varints(&mut self.value);
        self.block.add(key, seq, Kind::Put, &self.value);
        self.data_end = handle.offset + handle.len;
    }

    /// Ends a partition, and returns its encoded index, which [`Index::decode`] reads: the entries
    /// of the data blocks whose upper bounds are known. Data blocks that are added later are of the
    /// next partition.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let payload = self.block.finish().to_vec();
        self.block.clear();
        payload
    }
}

/// Returns a short key that is at least `low` and below `high`: `low` itself, or a prefix of
/// `high`. `high` must be greater than `low`.
fn separator<'a>(low: &'a [u8], high: &'a [u8]) -> &'a [u8] {
    let parted = common_prefix_len(low, high) + 1;
    if parted < high.len() {
        &high[..parted]
    } else {
        low
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::sstable::file_id::HEADER_BYTES;

    fn handle(i: usize) -> BlockHandle {
        BlockHandle {
            offset: (HEADER_BYTES + i) as u64,
            len: 1,
        }
    }

    /// The keys have few different bytes, zeros among them, so that different keys may have the
    /// same head (the first eight bytes, padded with zeros). In every other round the keys have a
    /// long common prefix.
    #[test]
    fn a_position_is_the_first_entry_not_smaller() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for round in 0..300 {
            let start: &[u8] = if round % 2 == 0 { b"" } else { b"tenant/0042/" };
            let key = |rng: &mut ChaCha8Rng| {
                let rest = (0..rng.random_range(0..12)).map(|_| rng.random_range(0..3));
                let mut key = start.to_vec();
                key.extend(rest);
                key
            };
            let versions: BTreeSet<_> = (0..rng.random_range(0..60))
                .map(|_| (key(&mut rng), Reverse(SeqNo(rng.random_range(1..5)))))
                .collect();
            let mut builder = IndexBuilder::new();
            for (i, (key, Reverse(seq))) in versions.iter().enumerate() {
                builder.start_block(key);
                builder.end_block(key, *seq, handle(i));
            }
            builder.end_blocks();
            let index = Index::decode(builder.take().into(), HEADER_BYTES as u64).unwrap();
            let versions: Vec<_> = versions.into_iter().collect();
            assert_eq!(index.len(), versions.len());
            for (i, IndexEntry { bound, handle: at }) in index.entries().enumerate() {
                assert_eq!(at, handle(i));
                let bound = (bound.0, Reverse(bound.1));
                assert!(versions[i] <= bound, "{bound:?} of {versions:?}");
                assert!(versions.get(i + 1).is_none_or(|next| bound < *next));
            }
            for target in 0..100 {
                let mut key = key(&mut rng);
                if target % 3 == 0 {
                    key.truncate(rng.random_range(0..=key.len()));
                }
                let target = (key, Reverse(SeqNo(rng.random_range(0..6))));
                let expected = versions.iter().filter(|version| **version < target).count();
                let found = index.position(&target.0, target.1.0);
                // Between two blocks it is the first, or the second.
                let same_key = versions
                    .get(expected)
                    .is_some_and(|next| next.0 == target.0);
                let between = found + 1 == expected && !same_key;
                assert!(
                    found == expected || between,
                    "round {round}: {target:?} at {found} in {versions:?}"
                );
            }
        }
    }

    #[test]
    fn separators_part_with_few_bytes() {
        for (low, high, parting) in [
            ("abcdef", "abxyz", "abx"),
            ("abcdef", "abd", "abcdef"),
            ("ab", "abc", "ab"),
            ("ab", "abcd", "abc"),
            ("", "xyz", "x"),
        ] {
            let found = separator(low.as_bytes(), high.as_bytes());
            assert_eq!(found, parting.as_bytes(), "{low} {high}");
        }
    }

    #[test]
    fn an_index_that_cannot_be_searched_is_damage() {
        let build = |entries: &[(&str, u64, Kind, &[u8])], interval| {
            let mut block = BlockBuilder::new(interval);
            for (key, seq, kind, value) in entries {
                block.add(key.as_bytes(), SeqNo(*seq), *kind, value);
            }
            Index::decode(Bytes::copy_from_slice(block.finish()), HEADER_BYTES as u64)
        };
        let good = ("a", 5, Kind::Put, &[20, 9][..]);
        assert!(build(&[good, ("b", 5, Kind::Put, &[29, 9])], 1).is_ok());
        assert!(build(&[good, ("a", 6, Kind::Put, &[29, 9])], 1).is_err());
        assert!(build(&[good, ("b", 5, Kind::Delete, &[])], 1).is_err());
        assert!(build(&[good, ("b", 5, Kind::Put, &[29])], 1).is_err());
        assert!(build(&[good, ("b", 5, Kind::Put, &[29, 9])], 2).is_err());
        assert!(build(&[good, ("b", 5, Kind::Put, &[28, 9])], 1).is_err());
    }
}
