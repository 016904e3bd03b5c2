//! One window: some seconds of the load, alone or with jobs beside it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_colocate::LoadMonitor;
use serde::Serialize;

use super::analytics::{Analytics, Beside};
use super::counts::Counts;
use super::disturbance::{Disturbance, Observer};
use super::setup::{Load, Setup};
use crate::ycsb::{HIDDEN_MAX, Section};

/// The fraction of the measured part of a window after which CPU time is sampled: before the end,
/// because the CPU time of a thread that has ended is no longer counted.
const MEASURED: f64 = 0.98;

/// The measurements of one window.
#[derive(Debug, Clone, Serialize)]
pub struct Window {
    /// Median latency of the load, in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// Operations per second, over the time in which the machine did not pause.
    pub ops_per_s: f64,
    /// The fraction of the measured time in which the machine paused. Operations that were due
    /// during pauses are left out, unless the fraction is above [`HIDDEN_MAX`]. `None` if pauses
    /// could not be observed, or the window is so long that operations due in pauses count.
    pub paused: Option<f64>,
    /// The number of operations that were due and that no thread took.
    pub operations_unserved: u64,
    /// Cores that the load used, with flushes and merges of the store.
    pub transactional_cores: f64,
    pub analytics_cores: f64,
    /// Bytes of rows per second that jobs read, as a measure of their work. `None` without jobs, or
    /// if jobs run in processes.
    pub jobs_bytes_per_s: Option<f64>,
    /// Cores used by other processes, as precisely as the kernel's ticks (10 ms) can show.
    pub others_cores: f64,
    pub idle_cores: f64,
    /// The hit rate of the block cache for point reads; `None` if no point read needed a block.
    pub cache_hits: Option<f64>,
    /// The lowest limit that the latency guard set for jobs, as a fraction (0 to 1) of the capacity
    /// that the load leaves. `None` without a guard.
    pub allowed_min: Option<f64>,
    /// The scheduling class that the kernel granted to task threads; `None` without jobs.
    pub scheduling_class: Option<String>,
    /// The fractions of the machine that other processes and the host used, from the start of the
    /// load to its end.
    pub disturbance: Disturbance,
    /// Latencies of operations in the measured time, from the time at which an operation was due
    /// to its end.
    #[serde(skip)]
    pub latencies: Counts,
    /// Latencies of whole batches: from the time at which a batch was due to the end of its last
    /// operation.
    #[serde(skip)]
    pub batches: Counts,
    /// Delays of dispatch: from the time at which an operation was due until a thread took it.
    #[serde(skip)]
    pub dispatch: Counts,
    /// Latencies of operations during the lead, the warm-up before the measured part of the window;
    /// empty without a lead.
    #[serde(skip)]
    pub lead: Counts,
    /// Whether any operation was measured during the lead, the warm-up before the measured part of
    /// the window.
    #[serde(skip)]
    pub has_lead: bool,
    /// Latencies of operations in each piece into which the measured time is cut, in order.
    #[serde(skip)]
    pub pieces: Vec<Counts>,
}

impl Window {
    /// Returns whether the window is spoiled: other processes or the host used too much of the
    /// machine, or the machine paused for most of the window. Spoiled windows are left out of the
    /// results, unless a condition has no others.
    pub fn is_spoiled(&self) -> bool {
        self.disturbance.spoils() || self.paused.is_some_and(|paused| paused > HIDDEN_MAX)
    }
}

/// Runs one window: the load, and beside it the jobs `beside`. The measured part begins after the
/// load's lead, and lasts for `length`.
///
/// # Errors
/// If the store fails, jobs do not run, or a read returned a wrong value or none.
pub fn play(setup: &Setup, load: &Load, length: Duration, beside: &Beside) -> Result<Window> {
    // Returns when the jobs run, so that their start is in no window.
    let analytics = Analytics::start(setup, beside)?;
    let observer = Observer::start()?;
    let guarded = analytics.as_ref().and_then(Analytics::latencies);
    let driver = setup.start_load(load, length, guarded)?;
    let watch = match &analytics {
        Some(analytics) => analytics.watch_store(&setup.db)?,
        None => None,
    };
    // CPU time and bytes are measured after the lead: until then threads get warm, and the governor measures
    // the load.
    driver.wait_for_end(load.lead);
    let before = setup.db.stats();
    let read_bytes = || analytics.as_ref().and_then(Analytics::read_bytes);
    let read_before = read_bytes();
    let mut monitor = LoadMonitor::start()?;
    driver.wait_for_end(length.mul_f64(MEASURED));
    // Both together, because the bytes are divided by the time between the samples.
    let used = monitor.sample()?;
    let read_after = read_bytes();
    let report = driver.join()?;
    let disturbance = observer.end()?;
    // The load is over, so the guard gets no more latencies.
    drop(watch);
    if let Some(analytics) = &analytics {
        analytics.check()?;
    }
    ensure!(
        report.mismatches == 0 && report.not_found == 0,
        "{} values were wrong, {} were missing",
        report.mismatches,
        report.not_found
    );
    let stats = setup.db.stats();
    let cached = stats.blocks_cached - before.blocks_cached;
    let blocks = cached + stats.blocks_read - before.blocks_read;
    // The rounding of ticks may make the use by others negative.
    let busy = used.transactional_cores + used.analytics_cores + used.others_cores.max(0.0);
    // The first section is the lead, which does not count.
    let (lead, pieces) = (report.sections.split_first()).context("a load has sections")?;
    let mut counted = Section::default();
    for piece in pieces {
        counted.add(piece);
    }
    let paused = counted.paused.map(|paused| paused.as_secs_f64());
    // If pauses hide more than `HIDDEN_MAX`, nothing is left out, and the window is spoiled.
    let left_out = paused.filter(|paused| *paused <= length.as_secs_f64() * HIDDEN_MAX);
    let counted_s = length.as_secs_f64() - left_out.unwrap_or(0.0);
    let quantile_us = |quantile| counted.latencies.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Window {
        p50_us: quantile_us(0.5),
        p99_us: quantile_us(0.99),
        p999_us: quantile_us(0.999),
        ops_per_s: counted.latencies.len() as f64 / counted_s,
        paused: paused.map(|paused| paused / length.as_secs_f64()),
        operations_unserved: report.operations_unserved,
        transactional_cores: used.transactional_cores,
        analytics_cores: used.analytics_cores,
        jobs_bytes_per_s: (read_after.zip(read_before))
            .map(|(after, before)| (after - before) as f64 / used.length_s),
        others_cores: used.others_cores,
        idle_cores: (f64::from(setup.cores) - busy).max(0.0),
        cache_hits: (blocks > 0).then(|| cached as f64 / blocks as f64),
        allowed_min: analytics.as_ref().and_then(Analytics::allowed_min),
        scheduling_class: analytics.as_ref().map(Analytics::scheduling_class),
        disturbance,
        latencies: Counts::from(&counted.latencies),
        batches: Counts::from(&counted.batches),
        dispatch: Counts::from(&counted.dispatch),
        lead: Counts::from(&lead.latencies),
        has_lead: !lead.latencies.is_empty(),
        pieces: pieces
            .iter()
            .map(|piece| Counts::from(&piece.latencies))
            .collect(),
    })
}
