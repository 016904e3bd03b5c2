//! The whole measurement: rounds, jobs, engines in turn.

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

/// What is done with whom.
#[derive(Debug)]
pub struct Measurement {
    /// The jobs, in order.
    pub jobs: Vec<Job>,
    /// The rows of the tables.
    pub entrants: Vec<Entrant>,
    /// How often everything is repeated.
    pub rounds: u32,
    /// Size of a memtable, in bytes.
    pub memtable_bytes: u64,
    /// Chooses operations and records, of all alike, other ones in each round.
    pub seed: u64,
    /// Delays the fsyncs of the jobs that want it.
    pub shim: Option<Shim>,
    /// Ends it after the part that is under way.
    pub stop: Arc<AtomicBool>,
}

/// What one entrant did in one job of one round.
#[derive(Debug, Clone, Serialize)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// The job.
    pub job: &'static str,
    /// The row of the tables.
    pub entrant: String,
    /// How long it took, with all that is not measured, in seconds.
    pub elapsed_s: f64,
    /// What was measured, as far as it came.
    pub phases: Vec<Phase>,
    /// Why it did not come further.
    pub failure: Option<String>,
}

/// What is told while it goes on.
pub trait Progress {
    /// A turn begins.
    fn turn(&mut self, round: u32, job: &str, entrant: &str);
    /// A phase is over.
    fn phase(&mut self, phase: &Phase);
    /// A turn is over.
    fn done(&mut self, turn: &Turn);
}

/// What came out of it.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Every turn, in the order of time.
    pub turns: Vec<Turn>,
    /// Whether the page cache was empty when each part began.
    pub page_cache_dropped: bool,
}

impl Measurement {
    /// How many turns there are.
    pub fn turns(&self) -> u64 {
        (0..self.rounds)
            .map(|round| self.turns_of(round).len() as u64)
            .sum()
    }

    fn turns_of(&self, round: u32) -> Vec<(&Job, Entrant)> {
        let mut turns = Vec::new();
        let jobs = self.jobs.iter().filter(|job| round < job.rounds_max);
        for (number, job) in jobs.enumerate() {
            // Who begins changes with the round, and with the job.
            let order = rotated(&self.entrants, round as usize + number);
            let suited = order
                .into_iter()
                .filter(|entrant| job.suits(entrant.engine));
            turns.extend(suited.map(|entrant| (job, entrant)));
        }
        turns
    }

    /// Does it all in directories below `data`, each of which is gone after its
    /// turn. What fails is told in its turn, and the rest goes on. After each round
    /// `keep` gets all that was measured.
    ///
    /// # Errors
    /// When a directory cannot be made; those of `keep`.
    pub fn run(
        &self,
        data: &Path,
        progress: &mut dyn Progress,
        mut keep: impl FnMut(&Measured) -> Result<()>,
    ) -> Result<Measured> {
        let mut measured = Measured {
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
                    let tell = |phase: Phase| {
                        progress.phase(&phase);
                        turn.phases.push(phase);
                    };
                    if let Err(error) = child::spawn(&spec, shim, tell) {
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
