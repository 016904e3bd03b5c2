//! The top level of the index: the bound and the place of each partition. It stays in memory while
//! the table is open, and leads a lookup to its partition.
//!
//! The bound of a partition is that of its last data block. Its filter is stored in front of
//! its index, and the partitions lie one behind the other. See the book, Formats: SSTable.

use bytes::Bytes;

use super::block_builder::BlockBuilder;
use super::bounds::{Bound, Bounds};
use super::damage::Damage;
use super::file_id::HEADER_BYTES;
use super::handle::BlockHandle;
use super::index_block::IndexBlock;
use crate::key::{Kind, SeqNo};
use crate::varint;

/// The top level of an open table; all of it was checked when it was decoded.
#[derive(Debug)]
pub(super) struct TopLevel {
    bounds: Bounds,
    places: Box<[Ends]>,
    /// The offset of the first partition's filter, which is stored in front of its index.
    start: u64,
}

/// The offsets at which the data blocks, the filter and the index of a partition end; those of the
/// next partition begin there.
#[derive(Debug, Clone, Copy)]
struct Ends {
    data: u64,
    filter: u64,
    index: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionPlace {
    /// The data blocks of the partition, one behind the other.
    pub(super) data: BlockHandle,
    pub(super) filter: BlockHandle,
    /// The index of the partition, which is stored behind the filter.
    pub(super) index: BlockHandle,
}

impl TopLevel {
    /// Decodes the payload of the top level. `partitions` is the part of the file with all filters
    /// and indexes.
    ///
    /// # Errors
    /// `Damage` unless the bounds ascend, each partition has data, and the filters and indexes fill
    /// `partitions`.
    pub(super) fn decode(payload: Bytes, partitions: BlockHandle) -> Result<Self, Damage> {
        let block = IndexBlock::new(payload)?;
        let entries = block.entries()?;
        let mut places = Vec::with_capacity(entries.len());
        let start = Ends {
            data: HEADER_BYTES as u64,
            filter: partitions.offset,
            index: partitions.offset,
        };
        let mut before = start;
        for entry in &entries {
            before = ends(entry.value, before)?;
            places.push(before);
        }
        if Some(before.index) != partitions.end() {
            return Err(Damage(format!(
                "the partitions end at {}; they are {partitions:?}",
                before.index
            )));
        }
        Ok(Self {
            bounds: Bounds::new(entries.iter().map(|entry| (entry.key, entry.seq))),
            places: places.into(),
            start: partitions.offset,
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bounds.memory_bytes() + size_of_val(&*self.places)
    }

    /// Returns the number of partitions of the index and the filter; 0 when the table has range
    /// tombstones only.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the offset at which the last data block ends. If there is none, returns the offset
    /// at which the first one would begin.
    pub(super) fn data_end(&self) -> u64 {
        self.places
            .last()
            .map_or(HEADER_BYTES as u64, |ends| ends.data)
    }

    /// Returns the position of the first partition whose bound is not below `(key, seq)`;
    /// [`Self::len`] if there is none. A search for the first version `>= (key, seq)` begins in
    /// this partition, but may find it in the next: a bound may be above all versions of its
    /// partition. If the table has versions of `key` with numbers up to `seq`, the newest of them
    /// is in this partition.
    pub(super) fn position(&self, key: &[u8], seq: SeqNo) -> usize {
        self.bounds.position(key, seq)
    }

    /// Returns the bound of the partition at a position below [`Self::len`].
    pub(super) fn bound(&self, position: usize) -> Bound {
        self.bounds.get(position)
    }

    /// Returns the place of the partition at a position below [`Self::len`].
    pub(super) fn place(&self, position: usize) -> PartitionPlace {
        let (data, filter) = match position {
            0 => (HEADER_BYTES as u64, self.start),
            _ => {
                let before = self.places[position - 1];
                (before.data, before.index)
            }
        };
        let ends = self.places[position];
        let between = |offset, end| BlockHandle {
            offset,
            len: end - offset,
        };
        PartitionPlace {
            data: between(data, ends.data),
            filter: between(filter, ends.filter),
            index: between(ends.filter, ends.index),
        }
    }

    pub(super) fn places(&self) -> impl Iterator<Item = PartitionPlace> {
        (0..self.len()).map(|position| self.place(position))
    }
}

/// Decodes the offsets in the file at which the data blocks, the filter and the index of a
/// partition end. `before` are those of the partition before it.
fn ends(value: &[u8], before: Ends) -> Result<Ends, Damage> {
    let mut at = 0;
    let [data, filter_len, index_len] = [(); 3].map(|()| varint::get(value, &mut at));
    let filter = filter_len.and_then(|len| before.index.checked_add(len));
    let index = filter.zip(index_len);
    let index = index.and_then(|(filter, len)| filter.checked_add(len));
    match (data, filter, index) {
        (Some(data), Some(filter), Some(index)) if at == value.len() && data > before.data => {
            Ok(Ends {
                data,
                filter,
                index,
            })
        }
        _ => Err(Damage(format!(
            "the top level has {value:02x?} for a partition whose data begin at {}",
            before.data
        ))),
    }
}

/// A builder of the top level: the list of the partitions of a table that is being written.
pub(super) struct TopLevelBuilder {
    block: BlockBuilder,
    value: Vec<u8>,
}

impl TopLevelBuilder {
    pub(super) fn new() -> Self {
        Self {
            block: BlockBuilder::new(1),
            value: Vec::new(),
        }
    }

    /// Adds a partition: its bound, the offset at which its data blocks end, and the stored lengths
    /// of its filter and index.
    pub(super) fn add(
        &mut self,
        (key, seq): (&[u8], SeqNo),
        data_end: u64,
        [filter_len, index_len]: [u64; 2],
    ) {
        self.value.clear();
        for number in [data_end, filter_len, index_len] {
            varint::put(&mut self.value, number);
        }
        self.block.add(key, seq, Kind::Put, &self.value);
    }

    /// Returns the payload that [`TopLevel::decode`] reads.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.block.finish().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: BlockHandle = BlockHandle {
        offset: 100,
        len: 30,
    };

    /// Decodes a top level of two partitions. Each has its bound, the end of its data, and the
    /// lengths of its filter and its index.
    fn decode(entries: [(&str, [u64; 3]); 2]) -> Result<TopLevel, Damage> {
        let mut builder = TopLevelBuilder::new();
        for (key, [data_end, filter, index]) in entries {
            builder.add((key.as_bytes(), SeqNo::ZERO), data_end, [filter, index]);
        }
        TopLevel::decode(builder.finish().into(), PARTITIONS)
    }

    #[test]
    fn places_lie_one_behind_the_other() {
        let top = decode([("b", [60, 6, 9]), ("d", [90, 7, 8])]).unwrap();
        let between = |offset, end| BlockHandle {
            offset,
            len: end - offset,
        };
        let expected = [
            PartitionPlace {
                data: between(20, 60),
                filter: between(100, 106),
                index: between(106, 115),
            },
            PartitionPlace {
                data: between(60, 90),
                filter: between(115, 122),
                index: between(122, 130),
            },
        ];
        assert!(top.places().eq(expected));
        assert_eq!(top.data_end(), 90);
        for (key, position) in [("a", 0), ("b", 1), ("c", 1), ("d", 2)] {
            let found = top.position(key.as_bytes(), SeqNo(7));
            // Of the key of a bound there is no version: it is numbered 0.
            let position = position - usize::from(["b", "d"].contains(&key));
            assert_eq!(found, position, "{key}");
        }
        assert_eq!(top.position(b"e", SeqNo::MAX), 2);
        assert_eq!(top.bound(1), (b"d".to_vec(), SeqNo::ZERO));
    }

    #[test]
    fn partitions_that_lie_elsewhere_are_damage() {
        for second in [
            [60, 7, 8],
            [90, 7, 7],
            [90, 7, 9],
            [90, u64::MAX, 8],
            [90, 7, u64::MAX],
        ] {
            let found = decode([("b", [60, 6, 9]), ("d", second)]);
            assert!(found.is_err(), "{second:?}");
        }
        assert!(decode([("d", [60, 6, 9]), ("b", [90, 7, 8])]).is_err());
    }
}
