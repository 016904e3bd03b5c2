//! The assignment of keys to reduce tasks.

use crate::runtime::error::TaskError;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Assigns keys to reduce tasks.
pub trait Partitioner: Send + Sync {
    /// Returns the partition of `key`, a number below `partitions`, which is at least 1. The same
    /// key must always get the same partition.
    fn partition(&self, key: &[u8], partitions: u32) -> u32;
}

/// Assigns keys by their xxh3 hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashPartitioner;

impl Partitioner for HashPartitioner {
    fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        (xxh3_64(key) % u64::from(partitions)) as u32
    }
}

/// Assigns keys by ranges: all keys of a partition are below those of the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangePartitioner {
    cuts: Vec<Vec<u8>>,
}

impl RangePartitioner {
    /// Makes ranges that begin at the smallest possible key and at each of `cuts`, which may be in
    /// any order. If there are more ranges than partitions, the last partition gets all remaining
    /// ranges.
    #[must_use]
    pub fn new(mut cuts: Vec<Vec<u8>>) -> Self {
        cuts.sort_unstable();
        cuts.dedup();
        Self { cuts }
    }

    /// Returns the first key of each range except the first, ascending.
    #[must_use]
    pub fn cuts(&self) -> &[Vec<u8>] {
        &self.cuts
    }
}

impl Partitioner for RangePartitioner {
    fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        let range = self.cuts.partition_point(|cut| cut.as_slice() <= key);
        u32::try_from(range).map_or(partitions - 1, |range| range.min(partitions - 1))
    }
}

/// The assignment of a job's keys to its reduce tasks.
#[derive(Clone)]
pub enum Partitioning {
    /// A function of the key and of the number of partitions; the caller chooses it at submission.
    By(Arc<dyn Partitioner>),
    /// Ranges that are cut by a sample of the keys and hold about as many records each: a global
    /// sort. The rows of the reduces, one reduce after the other, are in order of their keys, if
    /// reducers emit under the keys of their input.
    ///
    /// The first map that runs takes the sample, once per job: it maps about `records` records from
    /// splits all over the input ([`Input::sample`](crate::runtime::Input::sample)). The same input
    /// gives the same ranges. A key with more than twice the records of an even part gets a range
    /// of its own, and some ranges may stay empty.
    SampledRanges {
        /// The number of input records to sample.
        records: u32,
    },
}

impl Partitioning {
    /// Returns the partitioner of the job: its own for [`By`](Self::By), or `ranges`, the result of
    /// the sample, for [`SampledRanges`](Self::SampledRanges).
    ///
    /// # Errors
    /// If ranges are to be sampled and `ranges` is `None`.
    pub(in crate::runtime) fn with(
        &self,
        ranges: Option<Arc<RangePartitioner>>,
    ) -> Result<Arc<dyn Partitioner>, TaskError> {
        match (self, ranges) {
            (Self::By(partitioner), _) => Ok(Arc::clone(partitioner)),
            (Self::SampledRanges { .. }, Some(ranges)) => Ok(ranges),
            (Self::SampledRanges { .. }, None) => Err(TaskError::failed(
                "a map has no ranges of keys for the global sort",
            )),
        }
    }
}

impl Default for Partitioning {
    fn default() -> Self {
        Self::By(Arc::new(HashPartitioner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_the_first_key_of_its_range() {
        let ranges = RangePartitioner::new(vec![b"m".to_vec(), b"d".to_vec(), b"m".to_vec()]);
        assert_eq!(ranges.cuts(), [b"d", b"m"]);
        let of = |key: &str, partitions| ranges.partition(key.as_bytes(), partitions);
        assert_eq!(["", "c", "cz"].map(|key| of(key, 3)), [0; 3]);
        assert_eq!(["d", "d\0", "lzz"].map(|key| of(key, 3)), [1; 3]);
        assert_eq!(["m", "z"].map(|key| of(key, 3)), [2; 2]);
        assert_eq!(
            of("z", 2),
            1,
            "the last partition gets the remaining ranges"
        );
        assert_eq!(of("z", 1), 0);
    }
}
