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

/// What a run did and how long its operations took.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The workload.
    pub workload: Workload,
    /// How it chose records.
    pub distribution: Distribution,
    /// Where its reads went: `live` or `snapshot:NAME`.
    pub read_from: String,
    /// Its threads.
    pub threads: usize,
    /// Whether operations started when they were due rather than when the one
    /// before was done; latencies then count from that moment, unless
    /// [`LatencyFrom`](super::LatencyFrom) says otherwise.
    pub open_loop: bool,
    /// Records in the table when it began.
    pub records: u64,
    /// Its length in seconds: to the end of its last operation.
    pub elapsed_s: f64,
    /// Operations done.
    pub operations: u64,
    /// Operations per second.
    pub throughput_ops_per_s: f64,
    /// Operations of an open loop that were due before the end and that no
    /// thread came to: above 0 the load was more than the store could take, and
    /// the percentiles say too little.
    pub operations_unserved: u64,
    /// Each kind of operation that there was.
    pub latencies: BTreeMap<Operation, OperationReport>,
    /// All operations together.
    pub latencies_all: Latencies,
    /// All operations that write together.
    pub latencies_writes: Latencies,
    /// Values read that were not the record's that was asked for, were damaged,
    /// or came out of a snapshot though this run wrote them.
    pub mismatches: u64,
    /// Reads of existing records that found nothing.
    pub not_found: u64,
    /// Records that scans returned.
    pub records_scanned: u64,
    /// The largest version read: 0 when every value was as loaded.
    pub version_read_max: u64,
    /// Processor time of the driver's threads, in seconds: choosing, making and
    /// checking records, and the store's work in the calling thread.
    pub driver_cpu_s: f64,
    /// The part of it that went into waiting until operations were due (an open
    /// loop's wake-ups and spinning), in seconds: no work of the store.
    pub pacing_cpu_s: f64,
    /// Writes around events, by the kind that the watch was opened with.
    pub watches: BTreeMap<&'static str, WatchGroup>,
    /// The run interval by interval.
    pub timeline: Vec<Interval>,
    /// The sections that were asked for, of an open loop.
    #[serde(skip)]
    pub sections: Vec<Section>,
}

/// One kind of operation.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OperationReport {
    /// Its rate, in operations per second.
    pub throughput_ops_per_s: f64,
    /// How long it took.
    #[serde(flatten)]
    pub latencies: Latencies,
}

impl Report {
    /// Merges what the workers saw until `ended`; what nobody came to is not in it yet.
    pub(super) fn new(
        tallies: &[Tally],
        shared: &Shared,
        ended: Instant,
        timeline: Vec<Interval>,
    ) -> Self {
        let elapsed = ended.saturating_duration_since(shared.start);
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

/// Section by section, over all workers.
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
