//! The results of a measurement: the JSON file, and the warnings below the table.

use serde::Serialize;

use crate::args::RunArgs;
use crate::plan::{Entrant, Scale, WorkloadName};
use crate::run::{Turn, TurnResults};
use crate::summary::{Row, summarize, wrong_reads};

/// The results of a measurement, with its parameters.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The sizes of data and workloads.
    pub scale: Scale,
    /// How many times everything was repeated.
    pub rounds: u32,
    /// The workloads that were run.
    pub workloads: Vec<WorkloadName>,
    /// The delay of every fsync in sync-slow, in milliseconds.
    pub fsync_delay_ms: u64,
    /// The seed of the random choice of operations and records.
    pub seed: u64,
    pub cpus: usize,
    /// Whether the page cache was empty when each engine started.
    pub page_cache_dropped: bool,
    /// Reads that returned a value of another record, a damaged value, or none.
    pub wrong_reads: f64,
    /// Medians, spreads and ratios.
    pub summary: Vec<Row>,
    /// The turns of all engines, in chronological order.
    pub turns: Vec<Turn>,
}

impl Outcome {
    /// Summarizes the turns of a measurement.
    pub fn new(scale: &Scale, args: &RunArgs, measured: TurnResults, entrants: &[Entrant]) -> Self {
        Self {
            scale: *scale,
            rounds: args.rounds,
            workloads: args.workloads(),
            fsync_delay_ms: args.fsync_delay_ms,
            seed: args.seed,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            page_cache_dropped: measured.page_cache_dropped,
            wrong_reads: wrong_reads(&measured.turns),
            summary: summarize(&measured.turns, entrants),
            turns: measured.turns,
        }
    }

    /// Returns whether any turn failed.
    pub fn has_failed(&self) -> bool {
        self.turns.iter().any(|turn| turn.failure.is_some())
    }

    /// Prints to stderr the reasons to doubt the table: failures, wrong reads, a warm page cache.
    pub fn warn(&self) {
        for turn in &self.turns {
            if let Some(failure) = &turn.failure {
                let Turn { job, entrant, .. } = turn;
                let round = turn.round + 1;
                eprintln!("failed: {entrant} in {job}, round {round}: {failure}");
            }
        }
        if self.wrong_reads > 0.0 {
            eprintln!(
                "wrong: {} reads returned another record, a damaged one or none",
                self.wrong_reads
            );
        }
        if !self.page_cache_dropped {
            eprintln!(
                "note: the page cache was not emptied between engines \
                 (/proc/sys/vm/drop_caches is for root): cold is not cold"
            );
        }
    }
}
