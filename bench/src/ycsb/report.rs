//! The report of a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::latencies::{DIGITS, Latencies, histogram};
use super::sections::Section;
use super::timeline::{Interval, Slot};
use super::watch::{WatchGroup, group};
use super::worker::{Shared, Tally};
use super::workload::{Distribution, Operation, Workload};

/// The operations of a run, and their latencies.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub workload: Workload,
    /// The distribution of records.
    pub distribution: Distribution,
    /// The source of reads: `live` or `snapshot:NAME`.
    pub read_from: String,
    pub threads: usize,
    /// Whether operations started when they were due, and not when the previous one had ended.
    /// Latencies then count from the time at which an operation was due, unless
    /// [`LatencyFrom`](super::LatencyFrom) selects its start.
    pub open_loop: bool,
    /// The number of records in the table at the start.
    pub records: u64,
    /// The time from the start of the run until its last thread ended, in seconds.
    pub elapsed_s: f64,
    /// The number of operations that were completed.
    pub operations: u64,
    pub throughput_ops_per_s: f64,
    /// The number of operations of an open loop that were due before the end and that no thread
    /// took. If there are any, the rate was too high for the store, and the percentiles are too
    /// low.
    pub operations_unserved: u64,
    /// The latencies of each kind of operation that occurred.
    pub latencies: BTreeMap<Operation, OperationReport>,
    /// The latencies of all operations together.
    pub latencies_all: Latencies,
    /// The latencies of all writing operations together.
    pub latencies_writes: Latencies,
    /// The number of wrong values. A value is wrong if its stamp is damaged, if it belongs to
    /// another record, or if a read from a snapshot returned it although this run wrote it.
    pub mismatches: u64,
    /// The number of reads that found no record, and of scans that did not find their first record,
    /// although the record exists.
    pub not_found: u64,
    /// The number of records that scans returned.
    pub records_scanned: u64,
    /// The largest version that was read; 0 if every value was as loaded.
    pub version_read_max: u64,
    /// CPU time of the driver's threads, in seconds: for choosing, creating and checking records,
    /// and for the store's work in the calling thread.
    pub driver_cpu_s: f64,
    /// The share of `driver_cpu_s` for waiting until operations were due (wake-ups and spinning of
    /// an open loop), in seconds. It is no work of the store.
    pub pacing_cpu_s: f64,
    /// Latencies of the writes in the windows that `Driver::watch` opened, by the kind of the
    /// window.
    pub watches: BTreeMap<&'static str, WatchGroup>,
    /// The counts and latencies of each interval of the run, in order.
    pub timeline: Vec<Interval>,
    /// The latencies of each section: the operations of an open loop that were due in a part of the
    /// run, as divided by [`RunOptions::section_ends`](super::RunOptions::section_ends). Empty for
    /// a closed loop.
    #[serde(skip)]
    pub sections: Vec<Section>,
}

/// The results of one kind of operation.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OperationReport {
    pub throughput_ops_per_s: f64,
    #[serde(flatten)]
    pub latencies: Latencies,
}

impl Report {
    /// Merges the tallies of the workers. Operations that no thread took are added later: the driver
    /// counts them, because they are in no tally.
    pub(super) fn new(
        tallies: &[Tally],
        shared: &Shared,
        ended: Instant,
        timeline: Vec<Interval>,
    ) -> Self {
        let elapsed = ended.saturating_duration_since(shared.start);
        // A run that was stopped before its start has lasted for no time.
        let per_second = |count: u64| match elapsed.as_secs_f64() {
            0.0 => 0.0,
            elapsed_s => count as f64 / elapsed_s,
        };
        let summary = |counts: fn(Operation) -> bool, operations: &[Operation]| {
            let mut merged = histogram(DIGITS);
            for operation in operations.iter().filter(|it| counts(**it)) {
                for tally in tallies {
                    let nanos = &tally.nanos[operation.index()];
                    merged.add(nanos).expect("all have the same bounds");
                }
            }
            Latencies::from(&merged)
        };
        // Percentiles of workers cannot be added up, so each summary merges their histograms.
        let all = summary(|_| true, &Operation::ALL);
        let mut latencies = BTreeMap::new();
        for operation in Operation::ALL {
            let of_it = summary(|_| true, &[operation]);
            if of_it.count > 0 {
                let report = OperationReport {
                    throughput_ops_per_s: per_second(of_it.count),
                    latencies: of_it,
                };
                latencies.insert(operation, report);
            }
        }
        let total = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum();
        let cpu_ns: u64 = shared.slots.iter().map(Slot::cpu_ns).sum();
        let pacing_cpu: Duration = tallies.iter().map(|tally| tally.pacing_cpu).sum();
        let watched = tallies.iter().flat_map(|tally| &tally.watched);
        let version_read_max = tallies.iter().map(|tally| tally.version_read_max).max();
        Self {
            workload: shared.options.workload,
            distribution: shared.distribution,
            read_from: shared.read_from.to_string(),
            threads: shared.options.threads,
            open_loop: shared.agenda.is_some(),
            records: shared.records,
            elapsed_s: elapsed.as_secs_f64(),
            operations: all.count,
            throughput_ops_per_s: per_second(all.count),
            operations_unserved: 0,
            latencies,
            latencies_all: all,
            latencies_writes: summary(Operation::writes, &Operation::ALL),
            mismatches: total(|tally| tally.mismatches),
            not_found: total(|tally| tally.not_found),
            records_scanned: total(|tally| tally.records_scanned),
            version_read_max: version_read_max.unwrap_or(0),
            driver_cpu_s: cpu_ns as f64 / 1e9,
            pacing_cpu_s: pacing_cpu.as_secs_f64(),
            watches: group(&shared.board.windows(), watched.copied()),
            timeline,
            sections: sections(tallies),
        }
    }
}

/// Adds up the measurements of all workers, separately for each section (part of the run).
fn sections(tallies: &[Tally]) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    for tally in tallies {
        all.resize_with(tally.sections.len(), Section::default);
        for (sum, part) in all.iter_mut().zip(&tally.sections) {
            sum.add(part);
        }
    }
    all
}
