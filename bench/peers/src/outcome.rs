//! What a measurement found: the JSON, and what has to be said beside the table.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::args::RunArgs;
use crate::plan::{Entrant, Scale, WorkloadName};
use crate::run::{Measured, Turn};
use crate::summary::{Row, summarize, wrong_reads};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// How much of everything.
    pub scale: Scale,
    /// How often it was repeated.
    pub rounds: u32,
    /// What was run.
    pub workloads: Vec<WorkloadName>,
    /// Added to every fsync of sync-slow, in milliseconds.
    pub fsync_delay_ms: u64,
    /// Chose operations and records.
    pub seed: u64,
    /// Processors that there are.
    pub cpus: usize,
    /// Whether the page cache was empty when each engine began.
    pub page_cache_dropped: bool,
    /// Values that were not those of their record, and records not found.
    pub wrong_reads: f64,
    /// Medians, spreads and ratios.
    pub summary: Vec<Row>,
    /// Every turn of every engine, in the order of time.
    pub turns: Vec<Turn>,
}

impl Outcome {
    /// Sums up.
    pub fn new(scale: &Scale, args: &RunArgs, measured: Measured, entrants: &[Entrant]) -> Self {
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

    /// Whether an engine did not come to its end.
    pub fn has_failed(&self) -> bool {
        self.turns.iter().any(|turn| turn.failure.is_some())
    }

    /// Says on stderr what makes the table worth less.
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

    /// Writes it as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, self)?;
        file.flush()
    }
}
