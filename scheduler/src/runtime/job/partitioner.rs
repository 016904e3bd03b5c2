//! Which reduce task gets a key.

use crate::runtime::error::TaskError;
use std::sync::Arc;
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

/// By ranges of keys: each partition's keys are all below the next one's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangePartitioner {
    cuts: Vec<Vec<u8>>,
}

impl RangePartitioner {
    /// Ranges that begin at the first key possible and at each of `cuts`, which
    /// are sorted here. Keys from a cut on for which there is no partition go to
    /// the last.
    #[must_use]
    pub fn new(mut cuts: Vec<Vec<u8>>) -> Self {
        cuts.sort_unstable();
        cuts.dedup();
        Self { cuts }
    }

    /// Where the ranges begin, ascending; not that of the first.
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

/// How a job finds the reduce task of a key.
#[derive(Clone)]
pub enum Partitioning {
    /// By a function that is known beforehand.
    By(Arc<dyn Partitioner>),
    /// By ranges that are cut where a sample of the keys says, so that they hold
    /// about as many records each: a global sort. The rows of the reduces, one
    /// after the other, are in order of their keys, if reducers emit under the
    /// key they were given.
    ///
    /// The first map that runs takes the sample, once per job: it maps about
    /// `records` records from splits all over the input
    /// ([`Input::sample`](crate::runtime::Input::sample)). The same input gives the same
    /// ranges. A key of which there is more than an even part gets a range of
    /// its own, and some ranges may stay empty.
    SampledRanges {
        /// Records of the input to sample.
        records: u32,
    },
}

impl Partitioning {
    /// The partitioner, by `ranges` where they were to be sampled.
    pub(in crate::runtime) fn with(
        &self,
        ranges: Option<Arc<RangePartitioner>>,
    ) -> Result<Arc<dyn Partitioner>, TaskError> {
        match (self, ranges) {
            (Self::By(partitioner), _) => Ok(Arc::clone(partitioner)),
            (Self::SampledRanges { .. }, Some(ranges)) => Ok(ranges),
            (Self::SampledRanges { .. }, None) => {
                Err(TaskError::failed("a map was not told the ranges of keys"))
            }
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
        assert_eq!(of("z", 2), 1, "the last takes what lies behind");
        assert_eq!(of("z", 1), 0);
    }
}
