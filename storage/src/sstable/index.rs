//! The index: a bound of each data block, and where it lies.
//!
//! It is stored in the form of a block with a restart point at every entry; an
//! entry's key and sequence number are not below the data block's last version and
//! below the first of the next, its value is the block's handle. Because the
//! sequence number counts, the versions of one key may span blocks and a seek still
//! goes to the right one. Between blocks of different keys the shortest key that
//! parts them is enough, numbered 0, below which no version of it is. See the book,
//! Formats: SSTable.
//!
//! In memory there are columns of it, some 17 bytes for each data block:
//!
//! ```text
//!   bounds   user0017   user0042   user01   user0100…, 7
//!   heads    0017       0042       01       0100…        after "user"
//!   lengths  4          4          2        long
//!   ends     4096       8190       12280    16001
//! ```
//!
//! A search halves the heads, eight bytes of each bound as a number, which lie close
//! together; halving the keys themselves would miss the processor's caches at every
//! step (nearly a third of a point read, measured). The few bounds that a head cannot
//! hold stand beside the columns.

use std::cmp::Ordering;

use bytes::Bytes;

use super::block::{Block, common_prefix_len};
use super::block_builder::BlockBuilder;
use super::damage::Damage;
use super::handle::BlockHandle;
use crate::key::{Kind, SeqNo, compare_versions};

/// The payload of an index without entries: no restart points.
const EMPTY: [u8; 4] = [0; 4];

/// Bytes of a key in a head.
const HEAD_BYTES: usize = size_of::<u64>();
/// The least that an entry takes: three lengths, the kind, the number, and a handle of
/// two bytes.
const ENTRY_BYTES_MIN: usize = 7;
/// Stands for the length of a bound that is no head.
const LONG: u8 = u8::MAX;

/// The index of an open table, in memory; all of it was checked when it was
/// decoded.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// What all bounds begin with.
    prefix: Box<[u8]>,
    /// One for each data block, ascending: the bytes behind the prefix.
    heads: Box<[u64]>,
    /// How many of them there are; [`LONG`] of a bound with more, or with a number.
    lengths: Box<[u8]>,
    /// Where each data block ends and the next one begins.
    ends: Box<[u64]>,
    /// By position.
    long: Box<[LongBound]>,
}

#[derive(Debug)]
struct LongBound {
    position: usize,
    key: Box<[u8]>,
    seq: SeqNo,
}

/// What the index says of one data block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Key and sequence number, not below those of its last version, and below
    /// those of the next block's first.
    pub(super) bound: (Vec<u8>, SeqNo),
    /// Where it is.
    pub(super) handle: BlockHandle,
}

impl Index {
    /// # Errors
    /// `Damage` unless every entry is a restart point, the bounds ascend, and the
    /// values are the handles of blocks that lie one behind the other.
    pub(super) fn decode(payload: Bytes) -> Result<Self, Damage> {
        if *payload == EMPTY {
            return Ok(Self::default());
        }
        let block = Block::new(payload)?;
        let stored = stored_entries(&block)?;
        let prefix_bytes = match (stored.first(), stored.last()) {
            (Some(first), Some(last)) => common_prefix_len(first.key, last.key),
            _ => 0,
        };
        let mut long = Vec::new();
        let mut length = |(position, entry): (usize, &StoredEntry<'_>)| {
            let bytes = entry.key.len() - prefix_bytes;
            if bytes <= HEAD_BYTES && entry.seq == SeqNo::ZERO {
                return bytes as u8;
            }
            long.push(LongBound {
                position,
                key: entry.key.into(),
                seq: entry.seq,
            });
            LONG
        };
        Ok(Self {
            prefix: stored
                .first()
                .map_or(&[][..], |first| &first.key[..prefix_bytes])
                .into(),
            heads: stored
                .iter()
                .map(|entry| head(&entry.key[prefix_bytes..]))
                .collect(),
            lengths: stored.iter().enumerate().map(&mut length).collect(),
            ends: stored.iter().map(|entry| entry.end).collect(),
            long: long.into(),
        })
    }

    /// Number of data blocks; 0 when the table has range tombstones only.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Which data block alone can hold the first version `>= (key, seq)`, unless
    /// that is the first of the next; [`Self::len`] when all versions are smaller.
    /// Versions of `key` up to `seq` begin in this block if there are any.
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
            match self.is_below(middle, key, rest, seq) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Whether a bound is below `(key, seq)`; `rest` is of the key what is behind
    /// the prefix.
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

    /// Where the data block at a position below [`Self::len`] is.
    pub(super) fn handle(&self, position: usize) -> BlockHandle {
        let offset = match position {
            0 => 0,
            _ => self.ends[position - 1],
        };
        BlockHandle {
            offset,
            len: self.ends[position] - offset,
        }
    }

    /// The bound of the data block at a position below [`Self::len`].
    fn bound(&self, position: usize) -> (Vec<u8>, SeqNo) {
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

    /// All data blocks, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = IndexEntry> {
        (0..self.len()).map(|position| IndexEntry {
            bound: self.bound(position),
            handle: self.handle(position),
        })
    }
}

/// The first eight bytes as a number that sorts as they do; of what is shorter,
/// as if zeros followed. Of two keys the one with the smaller head is smaller;
/// of equal heads the keys decide.
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

struct StoredEntry<'a> {
    key: &'a [u8],
    seq: SeqNo,
    /// Where its data block ends.
    end: u64,
}

/// The entries of a stored index, checked.
fn stored_entries(block: &Block) -> Result<Vec<StoredEntry<'_>>, Damage> {
    let mut at = 0;
    // Not for more than there can be, whatever the number of restart points says.
    let entries_max = block.entries_end() / ENTRY_BYTES_MIN;
    let mut entries: Vec<StoredEntry<'_>> = Vec::with_capacity(block.restarts().min(entries_max));
    for i in 0..block.restarts() {
        let start = block.restart(i)?;
        let entry = block.entry(start)?;
        if start != at {
            return Err(Damage(format!(
                "entry {i} of the index is at byte {at}, its restart point at {start}"
            )));
        }
        if entry.shared != 0 {
            return Err(block.bad_entry(at, "is of the index and shares key bytes"));
        }
        if entry.kind != Kind::Put {
            return Err(block.bad_entry(at, "is of the index and no put"));
        }
        let (key, seq) = (entry.suffix, entry.seq);
        let before = entries.last();
        if before.is_some_and(|it| compare_versions((it.key, it.seq), (key, seq)).is_ge()) {
            return Err(block.bad_entry(at, "is of the index and not above the one before"));
        }
        let handle = BlockHandle::from_varints(block.value_bytes(entry.value))?;
        let expected = before.map_or(0, |before| before.end);
        let Some(end) = handle.end().filter(|_| handle.offset == expected) else {
            return Err(Damage(format!(
                "the block before ends at {expected}, the index has the next at {} with {} bytes",
                handle.offset, handle.len
            )));
        };
        entries.push(StoredEntry { key, seq, end });
        at = entry.end;
    }
    if at != block.entries_end() {
        return Err(block.bad_entry(at, "is of the index and no restart point"));
    }
    Ok(entries)
}

/// Collects the index of a table being written.
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    value: Vec<u8>,
    /// The last version of the last data block, and where that is.
    last: Option<(Vec<u8>, SeqNo, BlockHandle)>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self {
            block: BlockBuilder::new(1),
            value: Vec::new(),
            last: None,
        }
    }

    /// A data block begins, with this key.
    pub(super) fn start_block(&mut self, key: &[u8]) {
        if let Some((last, seq, handle)) = self.last.take() {
            match last == key {
                true => self.add(&last, seq, handle),
                false => self.add(separator(&last, key), SeqNo::ZERO, handle),
            }
        }
    }

    /// It ends with `(key, seq)`.
    pub(super) fn end_block(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.last = Some((key.to_vec(), seq, handle));
    }

    fn add(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.value.clear();
        handle.put_varints(&mut self.value);
        self.block.add(key, seq, Kind::Put, &self.value);
    }

    /// The payload that [`Index::decode`] reads.
    pub(super) fn finish(&mut self) -> &[u8] {
        if let Some((last, seq, handle)) = self.last.take() {
            self.add(&last, seq, handle);
        }
        self.block.finish()
    }
}

/// A short key that is at least `low` and below `high`, which is greater than `low`:
/// the start of one of them.
fn separator<'a>(low: &'a [u8], high: &'a [u8]) -> &'a [u8] {
    let parted = common_prefix_len(low, high) + 1;
    match parted < high.len() {
        true => &high[..parted],
        false => low,
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn handle(i: usize) -> BlockHandle {
        BlockHandle {
            offset: i as u64,
            len: 1,
        }
    }

    /// Keys of few different bytes, zeros among them, so that heads are equal,
    /// padded and shared; with a long common start every other time.
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
            let index = Index::decode(Bytes::copy_from_slice(builder.finish())).unwrap();
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
    fn what_cannot_be_searched_is_damage() {
        let build = |entries: &[(&str, u64, Kind, &[u8])], interval| {
            let mut block = BlockBuilder::new(interval);
            for (key, seq, kind, value) in entries {
                block.add(key.as_bytes(), SeqNo(*seq), *kind, value);
            }
            Index::decode(Bytes::copy_from_slice(block.finish()))
        };
        let good = ("a", 5, Kind::Put, &[0, 9][..]);
        assert!(build(&[good, ("b", 5, Kind::Put, &[9, 9])], 1).is_ok());
        assert!(build(&[good, ("a", 6, Kind::Put, &[9, 9])], 1).is_err());
        assert!(build(&[good, ("b", 5, Kind::Delete, &[])], 1).is_err());
        assert!(build(&[good, ("b", 5, Kind::Put, &[9])], 1).is_err());
        assert!(build(&[good, ("b", 5, Kind::Put, &[9, 9])], 2).is_err());
        assert!(build(&[good, ("b", 5, Kind::Put, &[8, 9])], 1).is_err());
    }
}
