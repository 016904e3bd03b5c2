//! The block cache: recently read data blocks and partitions of indexes and filters,
//! verified and uncompressed, shared by all tables of a database.
//!
//! Lookups find partitions in the slots of their tables and not here ([`super::partition`]). The
//! cache counts them, and decides which go. As each partition serves some hundreds of data blocks,
//! the cache passes over one that was used since it last checked, and may evict it the next time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::block::Block;
use super::partition::{Partition, Slots};
use crate::mutation::{self, Mutation};

/// The identity of a block: file number (unique within the database, never reused) and
/// offset in the file.
type BlockKey = (u64, u64);

/// A cache of blocks and partitions with a bound in bytes. Scan-resistant (S3-FIFO-like, as
/// `quick_cache` is); safe to use from any number of threads.
#[derive(Debug)]
pub(crate) struct BlockCache {
    /// The cached entries; `None` if the capacity is 0.
    blocks: Option<Cache<BlockKey, Cached, BlockWeighter, DefaultHashBuilder, Evictions>>,
    hits: AtomicU64,
    misses: AtomicU64,
    partitions_read: AtomicU64,
    partitions_bytes: Arc<AtomicU64>,
    /// The budget of the cache and of open tables in bytes, if they share one.
    shared_bytes: Option<u64>,
    tables_bytes: AtomicU64,
    /// The capacity of the cache in bytes; locked while it is changed.
    blocks_bytes_max: Mutex<u64>,
}

#[derive(Debug, Clone)]
enum Cached {
    Block(Block),
    Partition(Arc<Partition>),
}

#[derive(Debug, Clone)]
struct BlockWeighter;

impl BlockWeighter {
    /// The approximate cost of an entry beside its bytes: key, `Block`, its shared header and its
    /// slots in the cache's tables.
    const OVERHEAD_BYTES: u64 = 128;
}

impl Weighter<BlockKey, Cached> for BlockWeighter {
    fn weight(&self, _key: &BlockKey, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Block(block) => block.len(),
            Cached::Partition(partition) => {
                mutation::replace(partition.memory_bytes(), Mutation::OverlookIndexes, 0)
            }
        };
        bytes as u64 + Self::OVERHEAD_BYTES
    }
}

/// Handles evictions: subtracts the size of evicted partitions from `partitions_bytes`, and empties
/// the slots of these partitions.
#[derive(Debug, Clone)]
struct Evictions {
    partitions_bytes: Arc<AtomicU64>,
}

/// Evicted entries that are dropped only once the lock under which they were evicted is released, so that the
/// lock is not held while their memory is freed: all evicted partitions, and the first two blocks.
#[derive(Debug, Default)]
struct Evicted {
    /// Up to two evicted blocks, whose memory is freed without the lock. There are rarely more; the
    /// others are dropped while the lock is held.
    blocks: [Option<Block>; 2],
    partitions: Vec<Arc<Partition>>,
}

impl Drop for Evicted {
    fn drop(&mut self) {
        self.partitions.iter().for_each(Partition::leave);
    }
}

impl Lifecycle<BlockKey, Cached> for Evictions {
    type RequestState = Evicted;

    fn is_pinned(&self, _key: &BlockKey, cached: &Cached) -> bool {
        // Lookups read the slots of partitions, and not the cache.
        matches!(cached, Cached::Partition(partition) if partition.take_use())
    }

    fn on_evict(&self, evicted: &mut Evicted, _key: BlockKey, cached: Cached) {
        match cached {
            Cached::Block(block) => {
                if let Some(place) = evicted.blocks.iter_mut().find(|place| place.is_none()) {
                    *place = Some(block);
                }
            }
            Cached::Partition(partition) => {
                let bytes = partition.memory_bytes() as u64;
                self.partitions_bytes.fetch_sub(bytes, Ordering::Relaxed);
                evicted.partitions.push(partition);
            }
        }
    }
}

impl BlockCache {
    /// The assumed size of a block, to estimate from the capacity how many entries the cache will
    /// have.
    const EXPECTED_BLOCK_BYTES: u64 = 4096;

    /// The maximum number of shards, each of which has a lock of its own. A thread that loses its
    /// core while it holds the lock blocks all other users of the shard: with four shards for each
    /// core, the default of `quick_cache`, one read in a hundred of eight threads was blocked like
    /// this.
    const SHARDS_MAX: u64 = 64;
    /// The smallest capacity of a shard, with room for blocks of any usual size.
    const SHARD_BYTES_MIN: u64 = 1 << 20;

    /// The cache gets at least 1 / `BLOCKS_FRACTION` of the budget that it shares with open tables,
    /// however much these take.
    const BLOCKS_FRACTION: u64 = 8;
    /// The capacity changes with the memory of open tables only if it would change by more than the
    /// shared budget divided by this: each change takes the locks of all shards, which is too much
    /// for every small table that is opened or closed.
    const STEP_FRACTION: u64 = 256;

    /// Creates a cache of `capacity_bytes`, overhead included; 0 for a cache that keeps nothing.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let partitions_bytes = Arc::<AtomicU64>::default();
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
                Evictions {
                    partitions_bytes: partitions_bytes.clone(),
                },
            )
        });
        Self {
            blocks,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            partitions_read: AtomicU64::new(0),
            partitions_bytes,
            shared_bytes: None,
            tables_bytes: AtomicU64::new(0),
            blocks_bytes_max: Mutex::new(capacity_bytes),
        }
    }

    /// Creates a cache that gets the part of `shared_bytes` that open tables do not take, and at
    /// least an eighth of `shared_bytes`.
    pub(crate) fn beside_tables(shared_bytes: u64) -> Self {
        Self {
            shared_bytes: Some(shared_bytes),
            ..Self::new(shared_bytes)
        }
    }

    /// Adds the memory of a table that was opened to that of all open tables.
    pub(super) fn note_opened(&self, bytes: u64) {
        self.tables_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.share();
    }

    /// Subtracts the memory of a table that was closed from that of all open tables.
    pub(super) fn note_closed(&self, bytes: u64) {
        self.tables_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.share();
    }

    /// Sets the capacity of the cache to the part of the shared budget that open tables leave, or
    /// to the least that the cache gets. A small change is left out: see [`Self::STEP_FRACTION`].
    fn share(&self) {
        let (Some(shared), Some(blocks)) = (self.shared_bytes, &self.blocks) else {
            return;
        };
        let mut blocks_max = self.blocks_bytes_max.lock().unwrap();
        let left = shared.saturating_sub(self.tables_bytes());
        let max = left.max(shared / Self::BLOCKS_FRACTION);
        if max.abs_diff(*blocks_max) > shared / Self::STEP_FRACTION {
            *blocks_max = max;
            blocks.set_capacity(max);
        }
    }

    /// Returns the bytes of memory that open tables take outside of the cache: the top levels of
    /// their indexes, the slots of their partitions, properties, and range tombstones.
    pub(crate) fn tables_bytes(&self) -> u64 {
        self.tables_bytes.load(Ordering::Relaxed)
    }

    /// Returns the capacity of the cache now, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        *self.blocks_bytes_max.lock().unwrap()
    }

    /// Returns a data block; `None` if it is not in the cache. A block that is found counts as
    /// used, and so is less likely to be evicted.
    pub(super) fn get(&self, file_number: u64, offset: u64) -> Option<Block> {
        let blocks = self.blocks.as_ref();
        let found = match blocks.and_then(|blocks| blocks.get(&(file_number, offset))) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        };
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Adds a verified, uncompressed block. Returns a block that was evicted for it, if there was
    /// one, so that the caller can reuse its memory.
    pub(super) fn insert(&self, file_number: u64, offset: u64, block: Block) -> Option<Block> {
        let mut evicted = Evicted::default();
        let (blocks, key) = (self.blocks.as_ref()?, (file_number, offset));
        blocks.insert_with_lifecycle(key, Cached::Block(block), &mut evicted);
        evicted.blocks[0].take()
    }

    /// Adds a partition that was just read to its slot and to the cache, and returns it. If another
    /// thread has filled the slot before, returns that thread's partition. If there is no cache,
    /// the partition is not kept.
    pub(super) fn keep(
        &self,
        file_number: u64,
        offset: u64,
        slots: &Arc<Slots>,
        partition: Partition,
    ) -> Arc<Partition> {
        self.partitions_read.fetch_add(1, Ordering::Relaxed);
        let Some(blocks) = &self.blocks else {
            return Arc::new(partition);
        };
        let (partition, is_new) = slots.fill(partition);
        if is_new {
            let bytes = partition.memory_bytes() as u64;
            self.partitions_bytes.fetch_add(bytes, Ordering::Relaxed);
            let cached = Cached::Partition(partition.clone());
            blocks.insert((file_number, offset), cached);
        }
        partition
    }

    /// Marks the cached partition as used recently, so that it is less likely to be evicted. Called
    /// at the first use of the partition since the cache last looked for entries to evict.
    #[cold]
    pub(super) fn note_use(&self, file_number: u64, offset: u64) {
        if let Some(blocks) = &self.blocks {
            drop(blocks.get(&(file_number, offset)));
        }
    }

    /// Removes an entry of a file that is gone: a block that was used often would stay for long,
    /// and keep new ones out.
    pub(super) fn remove(&self, file_number: u64, offset: u64) {
        let blocks = self.blocks.as_ref();
        let removed = blocks.and_then(|blocks| blocks.remove(&(file_number, offset)));
        if let Some((_, Cached::Partition(partition))) = removed {
            let bytes = partition.memory_bytes() as u64;
            self.partitions_bytes.fetch_sub(bytes, Ordering::Relaxed);
            partition.leave();
        }
    }

    /// Returns the number of partitions that reads through the cache have read from the disk, since
    /// the cache was made. Partitions that scans past the cache have read do not count.
    pub(crate) fn partitions_read(&self) -> u64 {
        self.partitions_read.load(Ordering::Relaxed)
    }

    /// Returns the memory of the cached partitions, in bytes. [`Self::used_bytes`] also includes an
    /// overhead for each.
    pub(crate) fn partitions_bytes(&self) -> u64 {
        self.partitions_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of searches for a data block, by lookups and cursors, that found it,
    /// since the cache was made.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Returns the number of searches for a data block, by lookups and cursors, that did not find
    /// it, since the cache was made.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Returns the bytes in the cache now, overhead included.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.blocks.as_ref().map_or(0, Cache::weight)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sstable::block_builder::BlockBuilder;

    /// Returns a block of about 1000 bytes.
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

    /// Regression: the indexes and filters of 1 TB took 31 GB beside the cache, which no option
    /// limited.
    #[test]
    fn blocks_get_what_open_tables_leave() {
        let cache = BlockCache::beside_tables(1 << 20);
        let fill = || {
            for i in 0..2000 {
                cache.insert(1, i, block());
            }
            cache.used_bytes()
        };
        assert!(fill() > 900_000);
        cache.note_opened(400_000);
        let used = cache.used_bytes();
        assert!(
            used <= (1 << 20) - 400_000 + 4096,
            "{used}: they go at once"
        );
        assert!(fill() <= (1 << 20) - 400_000 + 4096);
        cache.note_opened(10 << 20);
        assert!((100_000..=1 << 17).contains(&fill()), "an eighth stays");
        cache.note_closed(10 << 20);
        cache.note_closed(400_000);
        assert_eq!(cache.tables_bytes(), 0);
        assert!(fill() > 900_000);
    }

    #[test]
    fn a_capacity_of_0_disables() {
        let cache = BlockCache::new(0);
        cache.insert(1, 1, block());
        assert!(cache.get(1, 1).is_none());
        assert_eq!((cache.hits(), cache.misses()), (0, 1));
    }
}
