//! A sample of the keys that a job's maps will emit, and the ranges cut from it.
//!
//! Cut points must be the same for all maps, so they are determined once, by the first map that
//! needs them, as a part of its task: paced, accounted, and tried again if it fails. The other maps
//! wait for it. Meanwhile they check now and then whether they were stopped, because the sampling
//! map pauses for as long as their job does, and whether it was: if it hangs, it is given up, and
//! another one takes the sample.

use crate::runtime::error::TaskError;
use crate::runtime::job::functions::Emit;
use crate::runtime::job::input::Split;
use crate::runtime::job::partitioner::{Partitioning, RangePartitioner};
use crate::runtime::job::task_context::TaskContext;
use crate::runtime::pacing::attempt::Attempt;
use crate::runtime::pacing::attempt_state::AttemptState;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The most splits that are sampled: enough to cover an ordered input, few enough to open.
const SAMPLED_SPLITS_MAX: usize = 64;

/// The time that a map waits for another map's sample before it checks whether it was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The ranges of keys that a job's reduce tasks get, once one of its map tasks has determined them
/// from a sample.
#[derive(Default)]
pub(in crate::runtime) struct JobRanges {
    search: Mutex<Search>,
    changed: Condvar,
}

#[derive(Default)]
enum Search {
    #[default]
    Open,
    /// The attempt at a map with this state is taking the sample.
    Claimed(Arc<AttemptState>),
    Found(Arc<RangePartitioner>),
}

/// The claim of an attempt at a map to take the sample. It is released on drop, so another attempt can
/// take it if this one fails.
struct Claim<'a> {
    ranges: &'a JobRanges,
    by: Arc<AttemptState>,
}

/// The result of a map task's wait for the ranges of keys: it has to take the sample of keys itself
/// (`Mine`), or another map task has taken it, and the ranges are known (`Over`).
enum Turn<'a> {
    Mine(Claim<'a>),
    Over(Arc<RangePartitioner>),
}

impl Claim<'_> {
    /// Sets the ranges of all maps, and returns them.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] if this attempt was stopped and another one has taken over: the ranges
    /// must be the same for all maps, and two samples may differ.
    fn set(&self, ranges: RangePartitioner) -> Result<Arc<RangePartitioner>, TaskError> {
        let mut search = self.ranges.lock();
        if !self.holds(&search) {
            return Err(TaskError::Cancelled);
        }
        let ranges = Arc::new(ranges);
        *search = Search::Found(Arc::clone(&ranges));
        self.ranges.changed.notify_all();
        Ok(ranges)
    }

    /// Returns whether this claim still holds: the sample is not finished, and no other attempt has
    /// claimed it.
    fn holds(&self, search: &Search) -> bool {
        matches!(search, Search::Claimed(by) if Arc::ptr_eq(by, &self.by))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.by.set_sampling(false);
        let mut search = self.ranges.lock();
        if self.holds(&search) {
            *search = Search::Open;
            self.ranges.changed.notify_all();
        }
    }
}

impl JobRanges {
    /// Returns the ranges of keys of `job`, whose input has these splits, for the attempt with the state
    /// `own`. If no attempt has determined them, calls `find` to do so. Returns `None` if the job's
    /// partitioner needs no sample of the keys.
    ///
    /// # Errors
    /// Those of `find`, and an error if `is_needed` returns false while another attempt takes the
    /// sample, or if this attempt was stopped and another one has taken the sample instead.
    pub fn get(
        &self,
        job: &TaskContext,
        splits: &[Split],
        own: &Arc<AttemptState>,
        is_needed: impl Fn() -> bool,
        find: impl FnOnce(SamplePlan) -> Result<RangePartitioner, TaskError>,
    ) -> Result<Option<Arc<RangePartitioner>>, TaskError> {
        let Partitioning::SampledRanges { records } = &job.spec.partitioning else {
            return Ok(None);
        };
        // The whole wait is marked: the sample may take longer than an attempt may stall.
        own.set_waiting(true);
        let turn = self.turn(own, is_needed);
        own.set_waiting(false);
        let claim = match turn? {
            Turn::Mine(claim) => claim,
            Turn::Over(ranges) => return Ok(Some(ranges)),
        };
        let ranges = match job.spec.reduces {
            0 | 1 => RangePartitioner::default(),
            _ => find(SamplePlan::new(splits, *records))?,
        };
        claim.set(ranges).map(Some)
    }

    /// Waits while another attempt takes the sample of keys. Returns the ranges that were
    /// determined from it. If that attempt failed or was stopped, or there is none, returns the
    /// claim of the attempt with the state `own` to take the sample. Fails if `is_needed` returns
    /// false during the wait.
    fn turn(
        &self,
        own: &Arc<AttemptState>,
        is_needed: impl Fn() -> bool,
    ) -> Result<Turn<'_>, TaskError> {
        let mut search = self.lock();
        loop {
            match &*search {
                Search::Found(ranges) => return Ok(Turn::Over(Arc::clone(ranges))),
                Search::Claimed(by) if !by.is_stopped() => {}
                Search::Claimed(_) | Search::Open => break,
            }
            if !is_needed() {
                return Err(TaskError::Cancelled);
            }
            let waited = self.changed.wait_timeout(search, LOOK_EVERY);
            search = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        own.set_sampling(true);
        *search = Search::Claimed(Arc::clone(own));
        Ok(Turn::Mine(Claim {
            ranges: self,
            by: Arc::clone(own),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Search> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The splits from which the job's keys are sampled, and the number of records to read of each.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::runtime) struct SamplePlan {
    splits: Vec<Split>,
    records_per_split: u32,
}

impl SamplePlan {
    /// Plans to read about `records` records from some of `splits`, evenly distributed.
    fn new(splits: &[Split], records: u32) -> Self {
        let sampled = splits.len().min(SAMPLED_SPLITS_MAX);
        let nth = |nth: usize| splits[nth * splits.len() / sampled].clone();
        Self {
            splits: (0..sampled).map(nth).collect(),
            records_per_split: records.div_ceil((sampled as u32).max(1)).max(1),
        }
    }

    /// Reads and maps the sampled records, and determines the ranges of keys of the job's reduces
    /// from a sample of the emitted keys. The sample takes at most a quarter of a task's memory.
    ///
    /// # Errors
    /// If reading or mapping the sample fails, or the job is cancelled.
    pub fn ranges(
        &self,
        job: &TaskContext,
        attempt: &Attempt<'_>,
    ) -> Result<RangePartitioner, TaskError> {
        let mut emit = KeyEmit {
            sample: KeySample::new(job.task_memory_bytes / 4),
            attempt,
        };
        for split in &self.splits {
            let records = self.records_per_split as usize;
            let mut record = |key: &[u8], value: &[u8]| {
                attempt.tick(key.len() + value.len())?;
                job.spec.mapper.map(key, value, &mut emit)
            };
            let input = &job.spec.input;
            input.sample(split, records, &mut record, &|| attempt.tick(0))?;
        }
        let keys = emit.sample.into_keys();
        Ok(RangePartitioner::new(cuts(keys, job.spec.reduces)))
    }
}

/// Divides `keys` into at most `partitions` ranges with about the same number of keys each, where
/// equal keys stay together. Returns the first key of each range except the first.
fn cuts(mut keys: Vec<Vec<u8>>, partitions: u32) -> Vec<Vec<u8>> {
    keys.sort_unstable();
    let mut cuts = Vec::new();
    // In the present range and those behind it.
    let (mut records_left, mut ranges_left) = (keys.len(), partitions);
    let mut in_range = 0;
    for equal in keys.chunk_by(|a, b| a == b) {
        let even = records_left as f64 / f64::from(ranges_left);
        // True if the range is nearer to an even part without this key than with it.
        let is_full = in_range as f64 + equal.len() as f64 / 2.0 > even;
        if is_full && in_range > 0 && ranges_left > 1 {
            cuts.push(equal[0].clone());
            records_left -= in_range;
            ranges_left -= 1;
            in_range = 0;
        }
        in_range += equal.len();
    }
    cuts
}

/// A random sample of keys from a stream of unknown length. Each key has a level: half of them 0, a
/// quarter 1 and so on. When there are too many keys, those of the lowest level are dropped. The
/// level comes from a hash of the key's number, so it is reproducible, and does not correlate with
/// a mapper that emits several kinds of keys in turn.
#[derive(Debug)]
struct KeySample {
    keys: Vec<(u32, Vec<u8>)>,
    bytes: usize,
    budget_bytes: usize,
    level_min: u32,
    seen: u64,
}

impl KeySample {
    fn new(budget_bytes: usize) -> Self {
        Self {
            keys: Vec::new(),
            bytes: 0,
            budget_bytes,
            level_min: 0,
            seen: 0,
        }
    }

    fn cost_bytes(key: &[u8]) -> usize {
        key.len() + size_of::<(u32, Vec<u8>)>()
    }

    fn add(&mut self, key: &[u8]) {
        let level = xxh3_64(&self.seen.to_le_bytes()).trailing_zeros();
        self.seen += 1;
        if level < self.level_min {
            return;
        }
        self.keys.push((level, key.to_vec()));
        self.bytes += Self::cost_bytes(key);
        while self.bytes > self.budget_bytes {
            self.level_min += 1;
            self.keys.retain(|(level, _)| *level >= self.level_min);
            self.bytes = (self.keys.iter())
                .map(|(_, key)| Self::cost_bytes(key))
                .sum();
        }
    }

    fn into_keys(self) -> Vec<Vec<u8>> {
        self.keys.into_iter().map(|(_, key)| key).collect()
    }
}

/// A sink that samples the keys of the mapper's output and drops the values.
struct KeyEmit<'a> {
    sample: KeySample,
    attempt: &'a Attempt<'a>,
}

impl Emit for KeyEmit<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.sample.add(key);
        self.attempt.tick(key.len() + value.len())
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        self.attempt.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|key| key.as_bytes().to_vec()).collect()
    }

    /// If the stopped attempt used ranges of its own, and the other maps those of the attempt that
    /// replaced it, rows of one key would be in two partitions.
    #[test]
    fn ranges_of_an_attempt_that_another_has_replaced_do_not_count() {
        let ranges = JobRanges::default();
        let turn = |own: &Arc<AttemptState>| match ranges.turn(own, || true) {
            Ok(Turn::Mine(claim)) => claim,
            _ => panic!("nobody else takes the sample"),
        };
        let (one, other) = (Arc::default(), Arc::default());
        let stopped = turn(&one);
        one.stop();
        let claim = turn(&other);
        assert!(matches!(
            stopped.set(RangePartitioner::default()),
            Err(TaskError::Cancelled)
        ));
        drop(stopped);
        claim.set(RangePartitioner::default()).unwrap();
        drop(claim);
        assert!(matches!(ranges.turn(&one, || true), Ok(Turn::Over(_))));
    }

    #[test]
    fn an_attempt_is_marked_as_sampling_until_its_claim_is_dropped() {
        let (ranges, own) = (JobRanges::default(), Arc::<AttemptState>::default());
        let Ok(Turn::Mine(claim)) = ranges.turn(&own, || true) else {
            panic!("nobody else takes the sample");
        };
        assert!(own.is_sampling());
        drop(claim);
        assert!(!own.is_sampling());
    }

    #[test]
    fn distinct_keys_are_cut_evenly() {
        assert_eq!(cuts(keys("h b d a g c f e"), 4), keys("c e g"));
        assert_eq!(cuts(keys("a b c"), 1), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(Vec::new(), 3), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_frequent_key_has_a_range_of_its_own() {
        assert_eq!(cuts(keys("m m m m m m m m a z y"), 4), keys("m y z"));
        assert_eq!(cuts(keys("m m m m"), 3), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_sample_stays_within_its_budget_and_covers_the_whole_stream() {
        let budget_bytes = 16 << 10;
        let mut sample = KeySample::new(budget_bytes);
        let n = 1_000_000_u32;
        for key in 0..n {
            sample.add(&key.to_be_bytes());
        }
        assert!(sample.bytes <= budget_bytes);
        let mut twin = KeySample::new(budget_bytes);
        (0..n).for_each(|key| twin.add(&key.to_be_bytes()));
        let keys = sample.into_keys();
        assert_eq!(keys, twin.into_keys(), "the same stream, the same sample");
        for cut in [1, 2, 3].map(|part| n / 4 * part) {
            let below = keys.iter().filter(|key| key[..] < cut.to_be_bytes()[..]);
            let share = below.count() as f64 / keys.len() as f64;
            let expected = f64::from(cut) / f64::from(n);
            assert!((share - expected).abs() < 0.1, "{share} below {cut}");
        }
    }

    #[test]
    fn keys_that_are_longer_than_the_budget_are_not_kept() {
        let mut sample = KeySample::new(100);
        sample.add(&[1; 1000]);
        assert_eq!(sample.bytes, 0);
        assert!(sample.into_keys().is_empty());
    }
}
