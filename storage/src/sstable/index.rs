//! The index: for each data block its last version and where it lies.
//!
//! It is stored in the form of a block with a restart point at every entry; an
//! entry's key and sequence number are those of the data block's *last* version,
//! its value is the block's handle. Because the sequence number counts, the
//! versions of one key may span blocks and a seek still goes to the right one.
//! See the book, Formats: SSTable.
//!
//! In memory a column of *heads* stands beside it: of each key the eight bytes
//! behind what all keys have in common, as a number.
//!
//! ```text
//!   keys    user0017…  user0042…  user0042…  user0100…
//!   heads    0017…      0042…      0042…      0100…        after "user"
//! ```
//!
//! A search halves the heads, which lie close together, and looks at the keys
//! only where heads are equal; halving the keys themselves would miss the
//! processor's caches at every step (nearly a third of a point read, measured).

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

/// The index of an open table, in memory; all of it was checked when it was
/// decoded.
#[derive(Debug)]
pub(super) struct Index {
    block: Block,
    /// Length of what all keys begin with.
    prefix_bytes: usize,
    /// One for each data block, ascending.
    heads: Box<[u64]>,
}

/// What the index says of one data block.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexEntry<'a> {
    /// Key and sequence number of its last version.
    pub(super) last: (&'a [u8], SeqNo),
    /// Where it is.
    pub(super) handle: BlockHandle,
}

impl Index {
    /// # Errors
    /// `Damage` unless every entry is a restart point, the keys ascend, and the
    /// values are handles.
    pub(super) fn decode(payload: Bytes) -> Result<Self, Damage> {
        let block = if *payload == EMPTY {
            Block::empty()
        } else {
            Block::new(payload)?
        };
        check(&block)?;
        let key = |i: usize| entry(&block, i).map(|entry| entry.last.0);
        let prefix_bytes = match block.restarts() {
            0 => 0,
            blocks => common_prefix_len(key(0)?, key(blocks - 1)?),
        };
        let heads = (0..block.restarts()).map(|i| Ok(head(&key(i)?[prefix_bytes..])));
        Ok(Self {
            heads: heads.collect::<Result<_, Damage>>()?,
            prefix_bytes,
            block,
        })
    }

    /// Number of data blocks; 0 when the table has range tombstones only.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Which data block alone can hold the first version `>= (key, seq)`;
    /// [`Self::len`] when all versions are smaller.
    pub(super) fn position(&self, key: &[u8], seq: SeqNo) -> usize {
        if self.heads.is_empty() {
            return 0;
        }
        let prefix = &self.entry(0).last.0[..self.prefix_bytes];
        let (start, rest) = key.split_at(prefix.len().min(key.len()));
        match start.cmp(prefix) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.len(),
            std::cmp::Ordering::Equal => {}
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
            match compare_versions(self.entry(middle).last, (key, seq)).is_lt() {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// What it says of the data block at a position below [`Self::len`].
    pub(super) fn entry(&self, position: usize) -> IndexEntry<'_> {
        entry(&self.block, position).expect("it was checked when it was decoded")
    }

    /// All data blocks, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = IndexEntry<'_>> {
        (0..self.len()).map(|position| self.entry(position))
    }
}

fn entry(block: &Block, position: usize) -> Result<IndexEntry<'_>, Damage> {
    let entry = block.entry(block.restart(position)?)?;
    Ok(IndexEntry {
        last: (entry.suffix, entry.seq),
        handle: BlockHandle::from_varints(block.value_bytes(entry.value))?,
    })
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

fn check(block: &Block) -> Result<(), Damage> {
    let mut at = 0;
    let mut before: Option<(&[u8], SeqNo)> = None;
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
        BlockHandle::from_varints(block.value_bytes(entry.value))?;
        let last = (entry.suffix, entry.seq);
        if before.is_some_and(|before| compare_versions(before, last).is_ge()) {
            return Err(block.bad_entry(at, "is of the index and not above the one before"));
        }
        before = Some(last);
        at = entry.end;
    }
    if at != block.entries_end() {
        return Err(block.bad_entry(at, "is of the index and no restart point"));
    }
    Ok(())
}

/// Collects the index of a table being written.
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    value: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self {
            block: BlockBuilder::new(1),
            value: Vec::new(),
        }
    }

    /// Adds a data block that ends with `(key, seq)`.
    pub(super) fn add(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.value.clear();
        handle.put_varints(&mut self.value);
        self.block.add(key, seq, Kind::Put, &self.value);
    }

    /// The payload that [`Index::decode`] reads.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.block.finish()
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
                builder.add(key, *seq, handle(i));
            }
            let index = Index::decode(Bytes::copy_from_slice(builder.finish())).unwrap();
            let lasts = index.entries().map(|entry| entry.last);
            assert!(lasts.eq(versions.iter().map(|(key, seq)| (&key[..], seq.0))));
            for target in 0..100 {
                let mut key = key(&mut rng);
                if target % 3 == 0 {
                    key.truncate(rng.random_range(0..=key.len()));
                }
                let target = (key, Reverse(SeqNo(rng.random_range(0..6))));
                let expected = versions.iter().filter(|version| **version < target).count();
                let found = index.position(&target.0, target.1.0);
                assert_eq!(found, expected, "round {round}: {target:?} in {versions:?}");
            }
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
    }
}
