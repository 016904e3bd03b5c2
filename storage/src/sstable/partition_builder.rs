//! Cuts the index and the filter of a table being written into partitions.

use super::filter::FilterBuilder;
use super::handle::BlockHandle;
use super::index::IndexBuilder;
use super::index_block::ENTRY_BYTES_MAX;
use crate::key::SeqNo;
use crate::mutation::{self, Mutation};

/// A partition ends once its index and filter have this many bytes: some hundreds of data blocks.
/// Larger partitions push more out of the cache for one cold lookup; smaller ones make the top
/// level larger, which never leaves memory.
const PARTITION_BYTES: usize = 16 << 10;

/// A partition of an SSTable's index and filter, other than the last, has at least this many data
/// blocks, however long their keys: otherwise the top level could be as large as the index. Only a
/// large filter can end a partition earlier.
const DATA_BLOCKS_MIN: usize = 8;

/// Index and filter of a table being written.
pub(super) struct PartitionBuilder {
    index: IndexBuilder,
    filter: FilterBuilder,
    /// The size at which a partition ends: [`PARTITION_BYTES`], or less in tests.
    partition_bytes: usize,
    /// Whether the open partition has a key already.
    has_key: bool,
    /// The hash of the key prefix that was added last to the filter of the open partition:
    /// neighbouring keys with the same prefix add it once.
    prefix: Option<u64>,
    done: Vec<BuiltPartition>,
    done_bytes: usize,
    top_bytes: usize,
}

pub(super) struct BuiltPartition {
    /// The payload that [`super::filter::Filter::decode`] reads.
    pub(super) filter: Vec<u8>,
    /// The payload that [`super::index::Index::decode`] reads.
    pub(super) index: Vec<u8>,
    pub(super) bound: (Vec<u8>, SeqNo),
    /// The offset at which the partition's last data block ends.
    pub(super) data_end: u64,
}

impl PartitionBuilder {
    pub(super) fn new(filter_bits_per_key: u32) -> Self {
        Self {
            index: IndexBuilder::new(),
            filter: FilterBuilder::new(filter_bits_per_key),
            partition_bytes: PARTITION_BYTES,
            has_key: false,
            prefix: None,
            done: Vec::new(),
            done_bytes: 0,
            top_bytes: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn set_partition_bytes(&mut self, bytes: usize) {
        self.partition_bytes = bytes;
    }

    /// Ends the open partition if it is full. Then begins a data block with `key`; `prefix` is the
    /// hash of the prefix of `key`, if it has one.
    pub(super) fn start_block(&mut self, key: &[u8], prefix: Option<u64>) {
        self.index.start_block(key);
        let (blocks, bytes_max) = (self.index.entries(), self.partition_bytes);
        let is_full = self.index.len() + self.filter.len() >= bytes_max
            && (blocks >= DATA_BLOCKS_MIN || self.filter.len() >= bytes_max);
        if blocks > 0 && is_full {
            // A search from a key between two partitions on begins in the first of them.
            if !mutation::is(Mutation::PrefixesUpToPartitions) {
                self.add_prefix(prefix);
            }
            self.end_partition();
        }
    }

    pub(super) fn end_block(&mut self, key: &[u8], seq: SeqNo, handle: BlockHandle) {
        self.index.end_block(key, seq, handle);
    }

    /// Returns whether the filter of the open partition has a key already. If it has none, even a
    /// key that is in the filter of the partition before must be added, because its versions go on
    /// in this partition.
    pub(super) fn has_key(&self) -> bool {
        self.has_key
    }

    /// Adds a key of the open data block, by its hash; call once per distinct key of a
    /// partition.
    pub(super) fn add_key(&mut self, hash: u64) {
        self.has_key = true;
        self.filter.add(hash);
    }

    /// Adds the prefix of a key of the open data block to the filter, by its hash; `None` if the
    /// key has no prefix. Keys with the same prefix must come one after the other.
    pub(super) fn add_prefix(&mut self, hash: Option<u64>) {
        if let Some(hash) = hash.filter(|_| self.prefix != hash) {
            self.prefix = Some(hash);
            self.filter.add(hash);
        }
    }

    fn end_partition(&mut self) {
        let (key, seq) = self.index.last_bound();
        let bound = (key.to_vec(), seq);
        self.top_bytes += bound.0.len() + ENTRY_BYTES_MAX;
        let data_end = self.index.data_end();
        let (filter, index) = (self.filter.take(), self.index.take());
        self.done_bytes += filter.len() + index.len();
        self.has_key = false;
        self.prefix = None;
        self.done.push(BuiltPartition {
            filter,
            index,
            bound,
            data_end,
        });
    }

    /// Returns the size of all partitions and of the top level if they were finished now, in bytes
    /// before compression: an upper bound, but for the entry of the open partition in the top
    /// level, which is left out.
    pub(super) fn len(&self) -> usize {
        self.done_bytes + self.index.len() + self.filter.len() + self.top_bytes
    }

    /// Returns an upper bound of the size of the top level, in bytes before compression, with one
    /// more entry whose key has `key_bytes`.
    pub(super) fn top_bytes_with(&self, key_bytes: usize) -> usize {
        self.top_bytes + key_bytes + ENTRY_BYTES_MAX
    }

    /// Ends the last partition, and returns all partitions in order; none for a table without data
    /// blocks.
    pub(super) fn finish(mut self) -> Vec<BuiltPartition> {
        self.index.end_blocks();
        if self.index.entries() > 0 {
            self.end_partition();
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::damage::Damage;
    use crate::sstable::file_id::HEADER_BYTES;
    use crate::sstable::filter::{Filter, key_hash};
    use crate::sstable::index::Index;

    /// Returns the partitions of data blocks with one key each, and the hashes of the keys.
    fn build(keys: &[Vec<u8>]) -> (Vec<BuiltPartition>, Vec<u64>) {
        let mut builder = PartitionBuilder::new(10);
        let mut hashes = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            builder.start_block(key, None);
            hashes.push(key_hash(key));
            builder.add_key(hashes[i]);
            let handle = BlockHandle {
                offset: (HEADER_BYTES + 100 * i) as u64,
                len: 100,
            };
            builder.end_block(key, SeqNo(1), handle);
        }
        let bytes_max = builder.len();
        let built = builder.finish();
        let bytes = |it: &BuiltPartition| it.filter.len() + it.index.len();
        assert!(built.iter().map(bytes).sum::<usize>() <= bytes_max);
        (built, hashes)
    }

    fn decode(partition: BuiltPartition, start: u64) -> Result<(Index, Filter), Damage> {
        let index = Index::decode(partition.index.into(), start)?;
        Ok((index, Filter::decode(partition.filter.into())?))
    }

    #[test]
    fn each_partition_has_the_keys_of_its_blocks_and_goes_on_where_the_last_one_ended() {
        let keys: Vec<_> = (0..3000)
            .map(|i| format!("key {i:05}").into_bytes())
            .collect();
        let (built, hashes) = build(&keys);
        assert!((4..20).contains(&built.len()), "{} partitions", built.len());
        let (mut start, mut blocks) = (HEADER_BYTES as u64, 0);
        for partition in built {
            let (bound, data_end) = (partition.bound.clone(), partition.data_end);
            assert!(partition.index.len() + partition.filter.len() < PARTITION_BYTES + 200);
            let (index, filter) = decode(partition, start).unwrap();
            assert_eq!(index.bound(index.len() - 1), bound);
            assert_eq!(index.end(), data_end);
            let own = &hashes[blocks..blocks + index.len()];
            assert!(own.iter().all(|hash| filter.may_contain(*hash)));
            let others = hashes.iter().filter(|hash| filter.may_contain(**hash));
            assert!(others.count() < own.len() + 3000 / 20);
            (start, blocks) = (data_end, blocks + index.len());
        }
        assert_eq!(blocks, keys.len());
    }

    /// If each partition had only one data block, the top level of the index, which stays in
    /// memory, would be as large as the index.
    #[test]
    fn long_keys_share_partitions() {
        let key = |i: u8| [vec![b'k'; 60_000], vec![i]].concat();
        let keys: Vec<_> = (0..100).map(key).collect();
        assert_eq!(build(&keys).0.len(), 100_usize.div_ceil(DATA_BLOCKS_MIN));
    }
}
