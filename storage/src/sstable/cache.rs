//! The block cache: recently read data blocks, verified and uncompressed,
//! shared by all tables of a database.

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::block::Block;

/// Which block: file number (unique within the database, never reused) and
/// offset in the file.
type BlockKey = (u64, u64);

/// Keeps up to so many bytes of blocks. Scan-resistant (S3-FIFO-like, as
/// `quick_cache` is); safe to use from any number of threads.
#[derive(Debug)]
pub(crate) struct BlockCache {
    /// `None` with a capacity of 0.
    blocks: Option<Cache<BlockKey, Block, BlockWeighter>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Clone)]
struct BlockWeighter;

impl BlockWeighter {
    /// What an entry costs beside its bytes, roughly: key, `Block`, its shared
    /// header and its slots in the cache's tables.
    const OVERHEAD_BYTES: u64 = 128;
}

impl Weighter<BlockKey, Block> for BlockWeighter {
    fn weight(&self, _key: &BlockKey, block: &Block) -> u64 {
        block.len() as u64 + Self::OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// Blocks of the default size that fit decide how many entries to expect.
    const EXPECTED_BLOCK_BYTES: u64 = 4096;

    /// Each shard has a lock of its own. A thread that loses its core while it has it
    /// holds up all who come to the shard: with four for each core, as `quick_cache`
    /// makes them by itself, that was one read in a hundred of eight threads.
    const SHARDS_MAX: u64 = 64;
    /// So that a shard holds blocks of any usual size.
    const SHARD_BYTES_MIN: u64 = 1 << 20;

    /// A cache of `capacity_bytes`, overhead included; 0 keeps nothing.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let blocks = (capacity_bytes > 0).then(|| {
            let expected = (capacity_bytes / Self::EXPECTED_BLOCK_BYTES).max(1);
            let shards = (capacity_bytes / Self::SHARD_BYTES_MIN).clamp(1, Self::SHARDS_MAX);
            let options = OptionsBuilder::new()
                .estimated_items_capacity(expected as usize)
                .weight_capacity(capacity_bytes)
                .shards(shards as usize)
                .build();
            Cache::with_options(
                options.expect("both capacities are set"),
                BlockWeighter,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            )
        });
        Self {
            blocks,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Looks for a block; a hit counts as a use and defends the block against
    /// eviction.
    pub(super) fn get(&self, file_number: u64, offset: u64) -> Option<Block> {
        let blocks = self.blocks.as_ref();
        let found = blocks.and_then(|blocks| blocks.get(&(file_number, offset)));
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Puts a verified, uncompressed block in; returns one that had to go for it, if
    /// any had to.
    pub(super) fn insert(&self, file_number: u64, offset: u64, block: Block) -> Option<Block> {
        // Two are seldom.
        let mut evicted: [Option<(BlockKey, Block)>; 2] = Default::default();
        let blocks = self.blocks.as_ref()?;
        blocks.insert_with_lifecycle((file_number, offset), block, &mut evicted);
        let [evicted, _] = evicted;
        evicted.map(|(_key, block)| block)
    }

    /// Takes a block out that nobody will look for any more: one that was used often would
    /// stay for long, and keep new ones out.
    pub(super) fn remove(&self, file_number: u64, offset: u64) {
        if let Some(blocks) = &self.blocks {
            blocks.remove(&(file_number, offset));
        }
    }

    /// Lookups that found their block, since the cache was made.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Lookups that did not, since the cache was made.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Bytes in the cache now, overhead included.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.blocks.as_ref().map_or(0, Cache::weight)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sstable::block_builder::BlockBuilder;

    /// Of about 1000 bytes.
    fn block() -> Block {
        let mut builder = BlockBuilder::new(1);
        builder.add(b"k", crate::SeqNo(1), crate::key::Kind::Put, &[0; 985]);
        Block::new(Bytes::copy_from_slice(builder.finish())).unwrap()
    }

    #[test]
    fn the_cache_stays_within_its_capacity() {
        let cache = BlockCache::new(100_000);
        for i in 0..1000 {
            cache.insert(1, i, block());
            assert!(cache.used_bytes() <= 100_000);
        }
        assert!(cache.used_bytes() > 50_000);
        assert!(cache.get(1, 999).is_some());
        assert!(cache.get(2, 999).is_none());
        assert_eq!((cache.hits(), cache.misses()), (1, 1));
    }

    #[test]
    fn a_capacity_of_0_disables() {
        let cache = BlockCache::new(0);
        cache.insert(1, 1, block());
        assert!(cache.get(1, 1).is_none());
        assert_eq!((cache.hits(), cache.misses()), (0, 1));
    }
}
