//! A phase of a run: some work, then the wait until the store settles, and the metrics of both.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use ebb_bench::resources::{Usage, memory_peak_bytes};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::tally::Tally;
use crate::usage::{directory_bytes, reset_memory_peak};

/// The metrics of a phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Phase {
    /// The name in the tables: `load`, `a`, `c-8`.
    pub name: String,
    /// The metrics by name; a name ends with its unit.
    pub metrics: BTreeMap<String, f64>,
}

/// The metric that counts wrong values and missing records. If it is above 0, no other metric
/// counts.
pub const WRONG_READS: &str = "wrong_reads";

impl Phase {
    /// Creates a phase without metrics.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            metrics: BTreeMap::new(),
        }
    }

    /// Runs `work`, waits until the store settles, and measures both.
    ///
    /// # Errors
    /// The errors of `work` and of the store; if `/proc` cannot be read.
    pub fn measure(
        name: &str,
        engine: &dyn Engine,
        dir: &Path,
        work: impl FnOnce() -> Result<Tally>,
    ) -> Result<Self> {
        reset_memory_peak();
        let (before, counts_before) = (Usage::now()?, engine.counts());
        let started = Instant::now();
        let tally = work().with_context(|| format!("phase {name}"))?;
        let elapsed_s = started.elapsed().as_secs_f64();
        let settling = Instant::now();
        engine.settle()?;
        let settle_s = settling.elapsed().as_secs_f64();
        let usage = Usage::now()?.since(&before);

        let mut phase = Self::new(name);
        let operations = tally.operations as f64;
        phase.set("operations", operations);
        phase.set("elapsed_s", elapsed_s);
        phase.set("settle_s", settle_s);
        phase.set("cpu_s", usage.cpu_s);
        phase.set("ops_per_s", operations / elapsed_s);
        phase.set("ops_per_cpu_s", operations / usage.cpu_s);
        phase.set("user_bytes_written", tally.user_bytes_written as f64);
        phase.set("written_bytes", usage.process_write_bytes as f64);
        let cancelled = usage.process_cancelled_write_bytes;
        phase.set("written_cancelled_bytes", cancelled as f64);
        if let (Some(before), Some(after)) = (counts_before, engine.counts()) {
            let written_bytes = after.written_bytes - before.written_bytes;
            phase.set("engine_written_bytes", written_bytes as f64);
            // The maximum since the store was opened: stores do not report it by phase.
            phase.set("write_wait_max_us", after.write_wait_max_us as f64);
        }
        phase.set("directory_bytes", directory_bytes(dir)? as f64);
        phase.set("memory_peak_bytes", memory_peak_bytes()? as f64);
        phase.add_latencies(&tally);
        Ok(phase)
    }

    pub fn set(&mut self, metric: &str, value: f64) {
        self.metrics.insert(metric.to_string(), value);
    }

    /// Returns a metric, or 0 if the phase does not have it.
    pub fn get(&self, metric: &str) -> f64 {
        self.metrics.get(metric).copied().unwrap_or(0.0)
    }

    /// Sets the percentiles of each kind of operation, and adds wrong reads.
    pub fn add_latencies(&mut self, tally: &Tally) {
        for (kind, latencies) in tally.latencies() {
            self.set(&format!("{kind}_p50_us"), latencies.p50_us);
            self.set(&format!("{kind}_p99_us"), latencies.p99_us);
            self.set(&format!("{kind}_p999_us"), latencies.p999_us);
            self.set(&format!("{kind}_max_us"), latencies.max_us);
        }
        let wrong_reads = self.get(WRONG_READS) + tally.wrong_reads as f64;
        self.set(WRONG_READS, wrong_reads);
    }
}
