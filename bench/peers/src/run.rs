//! The whole measurement: its rounds, jobs and turns.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::child;
use crate::phase::Phase;
use crate::plan::{Entrant, Job, Part, rotated};
use crate::sequence::Spec;
use crate::shim::Shim;
use crate::usage::drop_page_cache;

/// The parameters of a measurement.
#[derive(Debug)]
pub struct Measurement {
    pub jobs: Vec<Job>,
    /// The columns of the tables.
    pub entrants: Vec<Entrant>,
    /// How many times everything is repeated.
    pub rounds: u32,
    pub memtable_bytes: u64,
    /// The seed of the random choices: the same for all entrants, another one in each round.
    pub seed: u64,
    /// The library that delays fsyncs, for the jobs that need it.
    pub shim: Option<Shim>,
    /// A flag that ends the measurement after the current turn.
    pub stop: Arc<AtomicBool>,
}

/// The results of one entrant in one job of one round.
#[derive(Debug, Clone, Serialize)]
pub struct Turn {
    /// The round, from 0.
    pub round: u32,
    pub job: &'static str,
    pub entrant: String,
    /// Duration of the turn with everything that is not measured, in seconds.
    pub elapsed_s: f64,
    /// The phases that ended before a failure, or all of them.
    pub phases: Vec<Phase>,
    /// The error that ended the turn early.
    pub failure: Option<String>,
}

/// A listener to the progress of a measurement.
pub trait Progress {
    /// A turn begins.
    fn turn(&mut self, round: u32, job: &str, entrant: &str);
    /// A phase is over.
    fn phase(&mut self, phase: &Phase);
    /// A turn is over.
    fn done(&mut self, turn: &Turn);
}

/// The results of a measurement.
#[derive(Debug, Clone)]
pub struct TurnResults {
    /// The turns, in chronological order.
    pub turns: Vec<Turn>,
    /// Whether the page cache was empty when each part began.
    pub page_cache_dropped: bool,
}

impl Measurement {
    pub fn turns(&self) -> u64 {
        (0..self.rounds)
            .map(|round| self.turns_of(round).len() as u64)
            .sum()
    }

    fn turns_of(&self, round: u32) -> Vec<(&Job, Entrant)> {
        let mut turns = Vec::new();
        let jobs = self.jobs.iter().filter(|job| round < job.rounds_max);
        for (number, job) in jobs.enumerate() {
            // The order is rotated by the round and the job, so that each entrant goes first
            // equally often.
            let order = rotated(&self.entrants, round as usize + number);
            let suited = order
                .into_iter()
                .filter(|entrant| job.suits(entrant.engine));
            turns.extend(suited.map(|entrant| (job, entrant)));
        }
        turns
    }

    /// Runs all turns, each in a directory below `data` that is removed after the turn. A failure
    /// is recorded in its turn, and the next turn starts. After each round `keep` gets the results
    /// so far.
    ///
    /// # Errors
    /// If a directory cannot be created; the errors of `keep`.
    pub fn run(
        &self,
        data: &Path,
        progress: &mut dyn Progress,
        mut keep: impl FnMut(&TurnResults) -> Result<()>,
    ) -> Result<TurnResults> {
        let mut measured = TurnResults {
            turns: Vec::new(),
            page_cache_dropped: true,
        };
        for round in 0..self.rounds {
            for (job, entrant) in self.turns_of(round) {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                progress.turn(round, job.name, &entrant.label());
                let started = Instant::now();
                let dir = tempfile::Builder::new()
                    .prefix("ebb-peers-")
                    .tempdir_in(data)
                    .with_context(|| format!("cannot make a directory in {}", data.display()))?;
                let mut turn = Turn {
                    round,
                    job: job.name,
                    entrant: entrant.label(),
                    elapsed_s: 0.0,
                    phases: Vec::new(),
                    failure: None,
                };
                for part in &job.parts {
                    measured.page_cache_dropped &= drop_page_cache();
                    let spec = self.spec(part, entrant, dir.path(), round);
                    let shim = self.shim.as_ref().filter(|_| part.delays_fsync);
                    let on_phase = |phase: Phase| {
                        progress.phase(&phase);
                        turn.phases.push(phase);
                    };
                    if let Err(error) = child::spawn(&spec, shim, on_phase) {
                        turn.failure = Some(format!("{error:#}"));
                        break;
                    }
                }
                turn.elapsed_s = started.elapsed().as_secs_f64();
                progress.done(&turn);
                measured.turns.push(turn);
            }
            keep(&measured)?;
        }
        Ok(measured)
    }

    fn spec(&self, part: &Part, entrant: Entrant, dir: &Path, round: u32) -> Spec {
        Spec {
            engine: entrant.engine,
            settings: part.settings(dir.join("db"), self.memtable_bytes),
            records: part.records,
            value_bytes: part.value_bytes,
            seed: self.seed + u64::from(round),
            steps: part.steps.clone(),
        }
    }
}
