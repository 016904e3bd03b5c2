//! A mix of operations in a closed loop, the same for every engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_bench::ycsb::{
    Chooser, Distribution, Inserts, KEY_BYTES, Operation, Stamp, Workload, key, write_value,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engine::Engine;
use crate::tally::{Tally, kind};

/// The most entries of a scan.
const SCAN_ENTRIES_MAX: usize = 100;
/// Operations that a thread takes at once from the shared remainder, so that threads contend
/// rarely.
const SHARE: u64 = 32;

/// The records of a store, and the source of new versions.
#[derive(Debug)]
pub struct Records {
    /// The number of records, and the numbers of inserts that are under way.
    pub inserts: Inserts,
    /// The version of the next write; loaded records have version 0.
    pub version_next: AtomicU64,
    pub value_bytes: usize,
}

impl Records {
    /// The records `0..records`.
    pub fn new(records: u64, value_bytes: usize) -> Self {
        Self {
            inserts: Inserts::new(records),
            version_next: AtomicU64::new(1),
            value_bytes,
        }
    }

    /// Returns a stamp with a version that no write has used yet.
    pub fn stamp(&self, number: u64) -> Stamp {
        let version = self.version_next.fetch_add(1, Ordering::Relaxed);
        Stamp { number, version }
    }
}

/// The parameters of a closed loop.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// The share of each kind of operation.
    pub workload: Workload,
    /// The distribution of the records that operations use.
    pub distribution: Distribution,
    pub threads: usize,
    /// The most operations of all threads together.
    pub operations_max: u64,
    /// The longest duration; `None` for no limit.
    pub duration_max: Option<Duration>,
    /// The same seed chooses the same operations in each thread.
    pub seed: u64,
}

/// Runs the mix in threads until the operations or the time are used up.
///
/// # Errors
/// The first error of the store; other threads end soon after.
pub fn run(engine: &dyn Engine, records: &Records, mix: &Mix) -> Result<Tally> {
    let left = AtomicU64::new(mix.operations_max);
    let failed = AtomicBool::new(false);
    let deadline = mix.duration_max.map(|duration| Instant::now() + duration);
    let run_one = |index: usize| {
        let mut worker = Worker::new(engine, records, mix, index);
        let is_over =
            || failed.load(Ordering::Relaxed) || deadline.is_some_and(|end| Instant::now() >= end);
        let done = worker.work(&left, is_over);
        done.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        Ok(worker.tally)
    };
    in_threads(mix.threads, run_one)
}

/// Runs `work` in `threads` threads, passes each its number, and sums up their tallies.
///
/// # Errors
/// The error of the first thread that failed.
pub fn in_threads(threads: usize, work: impl Fn(usize) -> Result<Tally> + Sync) -> Result<Tally> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || work(index)))
            .collect();
        let mut all = Tally::default();
        for thread in threads {
            let tally = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            all.merge(tally);
        }
        Ok(all)
    })
}

struct Worker<'a> {
    engine: &'a dyn Engine,
    records: &'a Records,
    workload: Workload,
    chooser: Chooser,
    rng: ChaCha8Rng,
    value: Vec<u8>,
    tally: Tally,
}

impl<'a> Worker<'a> {
    fn new(engine: &'a dyn Engine, records: &'a Records, mix: &Mix, index: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(mix.seed);
        rng.set_stream(index as u64);
        Self {
            engine,
            records,
            workload: mix.workload,
            chooser: Chooser::new(mix.distribution, records.inserts.records()),
            rng,
            value: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn work(&mut self, left: &AtomicU64, is_over: impl Fn() -> bool) -> Result<()> {
        loop {
            let take = |left: u64| (left > 0).then(|| left.saturating_sub(SHARE));
            let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
                return Ok(());
            };
            for _ in 0..before.min(SHARE) {
                if is_over() {
                    return Ok(());
                }
                let percent = self.rng.random_range(0..100);
                self.perform(self.workload.operation(percent))?;
            }
        }
    }

    fn perform(&mut self, operation: Operation) -> Result<()> {
        match operation {
            Operation::Read => {
                let number = self.choose();
                let key = key(number);
                let started = Instant::now();
                self.read(number, &key)?;
                self.tally.record(kind(operation), started);
            }
            Operation::Update => {
                let number = self.choose();
                let started = self.write(number)?;
                self.tally.record(kind(operation), started);
            }
            Operation::Insert => {
                let number = self.records.inserts.reserve();
                let started = self.write(number)?;
                self.tally.record(kind(operation), started);
                self.records.inserts.acknowledge(number);
            }
            Operation::Scan => {
                let key = key(self.choose());
                let entries = self.rng.random_range(1..=SCAN_ENTRIES_MAX);
                let started = Instant::now();
                self.scan(&key, entries)?;
                self.tally.record(kind(operation), started);
            }
            Operation::ReadModifyWrite => {
                let number = self.choose();
                let started = Instant::now();
                self.read(number, &key(number))?;
                self.write(number)?;
                self.tally.record(kind(operation), started);
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> u64 {
        let records = self.records.inserts.records();
        self.chooser.choose(records, &mut self.rng)
    }

    fn read(&mut self, number: u64, key: &[u8; KEY_BYTES]) -> Result<()> {
        let Self { engine, tally, .. } = self;
        let is_right = |stamp: Stamp| stamp.number == number;
        if !engine.get(key, &mut |_, value| tally.check(value, is_right))? {
            tally.wrong_reads += 1;
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8; KEY_BYTES], entries: usize) -> Result<()> {
        let Self { engine, tally, .. } = self;
        let mut found_first = false;
        engine.scan(from, entries, &mut |found, value| {
            found_first |= found == from;
            tally.check_entry(found, value);
        })?;
        if !found_first {
            tally.wrong_reads += 1;
        }
        Ok(())
    }

    /// Writes a new value, and returns the time just before the call of the store.
    fn write(&mut self, number: u64) -> Result<Instant> {
        let stamp = self.records.stamp(number);
        write_value(&mut self.value, stamp, self.records.value_bytes);
        let key = key(number);
        let started = Instant::now();
        self.engine.put(&key, &self.value)?;
        self.tally.user_bytes_written += (key.len() + self.value.len()) as u64;
        Ok(started)
    }
}
