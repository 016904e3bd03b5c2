//! What snapshots cost: while they are held, when they are read, and on the
//! disk.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_bench::ycsb::{Distribution, Operation, Stamp, Workload, key};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Spec;
use super::load::write_all;
use crate::engine::{Engine, See, Snapshot};
use crate::mix::{self, Mix, Records};
use crate::phase::Phase;
use crate::tally::Tally;
use crate::usage::{
    directory_bytes, memory_anonymous_bytes, memory_peak_bytes, reset_memory_peak, table_bytes,
};

/// Overwrites at random beside an idle snapshot, or without one for comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bill {
    /// Whether there is a snapshot.
    pub with_snapshot: bool,
    /// Writes, all over the records.
    pub overwrites: u64,
    /// In so many threads.
    pub threads: usize,
    /// Looks at disk and memory so long after the last write.
    pub idle_s: f64,
    /// And so long after the snapshot is dropped.
    pub idle_after_drop_s: f64,
}

/// How often the size of the directory is looked at during the overwrites.
const WATCH: Duration = Duration::from_millis(500);

impl Bill {
    pub(super) fn run(&self, engine: &dyn Engine, spec: &Spec, records: &Records) -> Result<Phase> {
        let live_bytes = table_bytes(spec.dir())? as f64;
        let snapshot = match self.with_snapshot {
            true => Some(engine.snapshot()?),
            false => None,
        };
        reset_memory_peak();
        let mix = Mix {
            workload: Workload {
                name: "bill",
                mix: &[(100, Operation::Update)],
                distribution: Distribution::Uniform,
            },
            distribution: Distribution::Uniform,
            threads: self.threads,
            operations_max: self.overwrites,
            duration_max: None,
            seed: spec.seed,
        };
        let started = Instant::now();
        let (tally, disk_peak_bytes) = thread::scope(|scope| {
            let writer = scope.spawn(|| mix::run(engine, records, &mix));
            let mut peak = 0;
            while !writer.is_finished() {
                peak = peak.max(directory_bytes(spec.dir())?);
                thread::park_timeout(WATCH);
            }
            let tally = writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            anyhow::Ok((tally, peak))
        })?;
        let elapsed_s = started.elapsed().as_secs_f64();

        let mut phase = Phase::new(match self.with_snapshot {
            true => "bill",
            false => "bill-none",
        });
        phase.set("ops_per_s", tally.operations as f64 / elapsed_s);
        phase.add_latencies(&tally);
        idle(self.idle_s);
        let over_live = |bytes: u64| bytes as f64 / live_bytes;
        phase.set("live_bytes", live_bytes);
        phase.set("disk_over_live", over_live(directory_bytes(spec.dir())?));
        phase.set("disk_peak_over_live", over_live(disk_peak_bytes));
        phase.set("memory_bytes", memory_anonymous_bytes()? as f64);
        phase.set("memory_peak_bytes", memory_peak_bytes()? as f64);
        if let Some(snapshot) = snapshot {
            let tally = check_oldest(snapshot.as_ref(), spec)?;
            phase.add_latencies(&tally);
            snapshot.release()?;
            idle(self.idle_after_drop_s);
            let after = over_live(directory_bytes(spec.dir())?);
            phase.set("disk_over_live_after_drop", after);
        }
        Ok(phase)
    }
}

/// Reads beside snapshots and from the oldest of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Held {
    /// Snapshots, each followed by as many overwrites as one part in `rounds` of
    /// the records.
    pub rounds: u64,
    /// Reads in each measurement.
    pub reads: u64,
}

impl Held {
    pub(super) fn run(&self, engine: &dyn Engine, spec: &Spec, records: &Records) -> Result<Phase> {
        let mut phase = Phase::new("held");
        let mut reads = Reads::new(spec, self.reads);
        let mut live = |phase: &mut Phase, kind| -> Result<()> {
            let tally = reads.run_warm(kind, |key, see| engine.get(key, see), |_, _| true)?;
            phase.add_latencies(&tally);
            Ok(())
        };
        live(&mut phase, "live_none_held")?;

        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        let mut snapshots = Vec::new();
        let mut creation_us = Vec::new();
        for _ in 0..self.rounds {
            let started = Instant::now();
            snapshots.push(engine.snapshot()?);
            creation_us.push(started.elapsed().as_secs_f64() * 1e6);
            let stamps = (0..spec.records / self.rounds)
                .map(|_| records.stamp(rng.random_range(0..spec.records)));
            write_all(engine, spec, stamps)?;
        }
        engine.settle()?;
        phase.set("directory_bytes", directory_bytes(spec.dir())? as f64);
        creation_us.sort_by(f64::total_cmp);
        phase.set(
            "snapshot_creation_p50_us",
            creation_us[creation_us.len() / 2],
        );
        live(&mut phase, "live_all_held")?;

        let oldest = snapshots[0].as_ref();
        let mut of_oldest = Reads::new(spec, self.reads);
        let is_right = |_, version| version == 0;
        let tally = of_oldest.run_warm("oldest", |key, see| oldest.get(key, see), is_right)?;
        phase.add_latencies(&tally);

        for snapshot in snapshots {
            snapshot.release()?;
        }
        engine.settle()?;
        live(&mut phase, "live_none_left")?;
        for (ratio, kind) in [
            ("live_all_held_over_none", "live_all_held"),
            ("live_none_left_over_none", "live_none_left"),
            ("oldest_over_none", "oldest"),
        ] {
            let none = phase.get("live_none_held_p50_us");
            phase.set(ratio, phase.get(&format!("{kind}_p50_us")) / none);
        }
        Ok(phase)
    }
}

/// Overwrites every other record, then reads records in turn live and from a
/// snapshot that was taken before.
pub(super) fn read(
    engine: &dyn Engine,
    spec: &Spec,
    records: &Records,
    reads: u64,
) -> Result<Phase> {
    let snapshot = engine.snapshot()?;
    let every_other = (0..spec.records).step_by(2);
    write_all(
        engine,
        spec,
        every_other.map(|number| records.stamp(number)),
    )?;
    engine.settle()?;
    let mut phase = Phase::new("read");
    // A few at a time: what disturbs the machine disturbs both.
    const TURN: u64 = 1000;
    let mut live = Reads::new(spec, TURN);
    let mut past = Reads::new(spec, TURN);
    let mut all = Tally::default();
    let is_overwritten = |number: u64| number.is_multiple_of(2);
    let turn = |live: &mut Reads<'_>, past: &mut Reads<'_>| -> Result<Tally> {
        let is_new = |number, version| (version > 0) == is_overwritten(number);
        let mut both = live.run("live", |key, see| engine.get(key, see), is_new)?;
        let is_old = |_, version| version == 0;
        both.merge(past.run("snapshot", |key, see| snapshot.get(key, see), is_old)?);
        Ok(both)
    };
    // Once without counting latencies, so that the caches are as they stay.
    for _ in 0..reads.div_ceil(TURN) {
        let warm = turn(&mut live, &mut past)?;
        all.wrong_reads += warm.wrong_reads;
    }
    for _ in 0..reads.div_ceil(TURN) {
        all.merge(turn(&mut live, &mut past)?);
    }
    phase.add_latencies(&all);
    let ratio = phase.get("snapshot_p50_us") / phase.get("live_p50_us");
    phase.set("snapshot_over_live", ratio);
    snapshot.release()?;
    Ok(phase)
}

/// Point reads of records chosen all alike, one after the other.
struct Reads<'a> {
    spec: &'a Spec,
    rng: ChaCha8Rng,
    count: u64,
}

impl<'a> Reads<'a> {
    fn new(spec: &'a Spec, count: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(spec.seed);
        Self { spec, rng, count }
    }

    /// The same, after as many reads that count only when they are wrong: they
    /// bring the caches to where they stay.
    fn run_warm(
        &mut self,
        kind: &'static str,
        get: impl Fn(&[u8], See<'_>) -> Result<bool> + Copy,
        is_right: impl Fn(u64, u64) -> bool + Copy,
    ) -> Result<Tally> {
        let warm = self.run(kind, get, is_right)?;
        let mut tally = self.run(kind, get, is_right)?;
        tally.wrong_reads += warm.wrong_reads;
        Ok(tally)
    }

    /// `is_right` is asked about number and version of what was read.
    fn run(
        &mut self,
        kind: &'static str,
        get: impl Fn(&[u8], See<'_>) -> Result<bool>,
        is_right: impl Fn(u64, u64) -> bool + Copy,
    ) -> Result<Tally> {
        let mut tally = Tally::default();
        for _ in 0..self.count {
            let number = self.rng.random_range(0..self.spec.records);
            let key = key(number);
            let started = Instant::now();
            let found = get(&key, &mut |_, value| {
                let is_right = |s: Stamp| s.number == number && is_right(number, s.version);
                tally.check(value, is_right);
            })?;
            tally.record(kind, started);
            tally.wrong_reads += u64::from(!found);
        }
        Ok(tally)
    }
}

/// A few records of a snapshot, all of which must be as loaded.
fn check_oldest(snapshot: &dyn Snapshot, spec: &Spec) -> Result<Tally> {
    const READS: u64 = 10_000;
    let is_old = |_, version| version == 0;
    Reads::new(spec, READS).run("oldest", |key, see| snapshot.get(key, see), is_old)
}

/// Lets background work go on.
fn idle(seconds: f64) {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}
