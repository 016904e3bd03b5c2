//! The costs of snapshots: latency while they exist, latency of reads from them, and disk space.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_bench::resources::{anonymous_bytes, memory_peak_bytes};
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
use crate::usage::{directory_bytes, reset_memory_peak, table_bytes};

/// Random overwrites beside an idle snapshot, or without a snapshot for comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bill {
    /// Whether a snapshot is taken before the overwrites.
    pub with_snapshot: bool,
    /// The number of overwrites, over all records.
    pub overwrites: u64,
    /// The number of writing threads.
    pub threads: usize,
    /// The wait before disk and memory are measured, in seconds after the last write.
    pub idle_s: f64,
    /// The wait before the disk is measured again, in seconds after the snapshot was dropped.
    pub idle_after_drop_s: f64,
}

/// The interval at which the size of the directory is measured during the overwrites.
const WATCH: Duration = Duration::from_millis(500);

impl Bill {
    pub(super) fn run(&self, engine: &dyn Engine, spec: &Spec, records: &Records) -> Result<Phase> {
        let live_bytes = table_bytes(spec.dir())? as f64;
        let snapshot = if self.with_snapshot {
            Some(engine.snapshot()?)
        } else {
            None
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

        let mut phase = Phase::new(if self.with_snapshot {
            "bill"
        } else {
            "bill-none"
        });
        phase.set("ops_per_s", tally.operations as f64 / elapsed_s);
        phase.add_latencies(&tally);
        idle(self.idle_s);
        let over_live = |bytes: u64| bytes as f64 / live_bytes;
        phase.set("live_bytes", live_bytes);
        phase.set("disk_over_live", over_live(directory_bytes(spec.dir())?));
        phase.set("disk_peak_over_live", over_live(disk_peak_bytes));
        phase.set("memory_bytes", anonymous_bytes()? as f64);
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

/// Point reads while snapshots exist, from the live content and from the oldest snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BesideSnapshots {
    /// Number of snapshots. Each is followed by overwrites of 1/`rounds` of the records.
    pub rounds: u64,
    /// Number of reads in each measurement.
    pub reads: u64,
}

impl BesideSnapshots {
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

/// Overwrites every second record, then reads random records alternately from the live content and
/// from a snapshot that was taken before the overwrites.
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
    // Short turns, so that a disturbance of the machine affects both kinds of reads.
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
    // A pass whose latencies do not count warms the caches.
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

/// Point reads of uniformly chosen records, one after the other.
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

    /// Runs the reads twice. Of the first pass, which warms the caches, only wrong reads count.
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

    /// Reads `count` records. `is_right` gets the number and the version of each value that was
    /// read.
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

/// Reads some records of a snapshot, all of which must have the version that was loaded.
fn check_oldest(snapshot: &dyn Snapshot, spec: &Spec) -> Result<Tally> {
    const READS: u64 = 10_000;
    let is_old = |_, version| version == 0;
    Reads::new(spec, READS).run("oldest", |key, see| snapshot.get(key, see), is_old)
}

/// Waits, while the background work of the store goes on.
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
