//! Which reduce task gets a key.

use xxhash_rust::xxh3::xxh3_64;

/// Assigns keys to reduce tasks.
pub trait Partitioner: Send + Sync {
    /// The partition of `key`, below `partitions`, which is at least 1. The
    /// same key always goes to the same partition.
    fn partition(&self, key: &[u8], partitions: u32) -> u32;
}

/// By the xxh3 hash of the key.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashPartitioner;

impl Partitioner for HashPartitioner {
    fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        (xxh3_64(key) % u64::from(partitions)) as u32
    }
}
