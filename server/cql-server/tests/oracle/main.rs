//! Random statements, compared with a simple model of Cassandra's rules.
//!
//! ```text
//!   generate ── steps ─┬─► server   the executor over a database in memory
//!                      └─► model    maps, by Cassandra's rules alone
//!                              run: both must return the same, page by page
//! ```
//!
//! Each seed draws a table (one or two columns of the partition key, up to three of clustering in
//! any order, ints or timestamps, static columns, collections, frozen and unfrozen user-defined
//! types, tuples, a default TTL, gc_grace) and some hundred requests: INSERT, UPDATE and DELETE of
//! columns, elements, rows, ranges and partitions, by `=`, IN, slices and tuples, singly or in
//! batches of either form. Timestamps are those of the statement, the batch, the request or the
//! server, in any order and often equal. Some requests have IF, singly or in batches, and some add to
//! counters, concurrently and in batches. In between the clock advances, even past gc_grace;
//! memtables are flushed and runs are merged; the server restarts; columns and indexes are added and
//! dropped; snapshots are created. SELECTs restrict, order, group, aggregate, limit and filter, with
//! or without an index, from the table and from snapshots in each form, at once or page by page,
//! while writes and restarts go on. In the end all deletions become old and all runs are merged: then no
//! garbage may be left.
//!
//! `generate/garbage` draws a small table and steps that leave much garbage, with timestamps about as late
//! as gc_grace permits: merges that purge too early must be noticed.
//!
//! `definitions` does the same for statements that change the schema.
//!
//! `EBB_STEPS` is the number of requests for each seed. See `ebb_test_support::seed` for how to
//! choose seeds.

#![expect(
    clippy::disallowed_methods,
    reason = "tests and examples look at clocks and files themselves"
)]

mod conditional;
mod counters;
mod definitions;
mod fault;
mod flaw;
mod generate;
mod group;
mod index;
mod model;
mod partition;
mod reading;
mod restriction;
mod run;
mod schema;
mod select;
mod server;
#[path = "../../../../tests/src/shrink.rs"]
mod shrink;
mod step;
mod text;
mod value;
mod write;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebb_test_support::seed::{for_seeds, number};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use fault::{Fault, Mistakes};
use flaw::Flaw;
use generate::Generator;
use run::{BEGIN_S, Counts, Run};
use schema::Schema;
use shrink::shrink;
use step::Step;

/// The number of seeds of a run, unless the environment sets another number.
const SEEDS: u64 = 12;
/// The number of requests for each seed, unless `EBB_STEPS` sets another number.
const STEPS: u64 = 250;

/// The number of seeds of the test of garbage, unless the environment sets another number.
const GARBAGE_SEEDS: u64 = 8;

/// The number of seeds within which each mistake must be detected.
const MISTAKE_SEEDS: u64 = 150;

/// The table and the steps of a run.
struct Plan {
    seed: u64,
    schema: Schema,
    steps: Vec<Step>,
}

impl Plan {
    fn draw(seed: u64, requests: u64) -> Self {
        let mut generator = Generator::new(ChaCha8Rng::seed_from_u64(seed), BEGIN_S);
        Self {
            seed,
            schema: generator.schema().clone(),
            steps: generator.steps(requests as usize),
        }
    }

    /// Draws a table and steps that leave much garbage.
    fn draw_garbage(seed: u64, requests: u64) -> Self {
        let mut generator = Generator::of_garbage(ChaCha8Rng::seed_from_u64(seed), BEGIN_S);
        Self {
            seed,
            schema: generator.schema().clone(),
            steps: generator.steps_of_garbage(requests as usize),
        }
    }

    /// Runs `steps` on the table.
    fn run(&self, steps: &[Step], mistakes: Mistakes) -> Result<Counts, Box<Difference>> {
        let mut run = Run::new(&self.schema, self.seed, mistakes);
        for (at, step) in steps.iter().enumerate() {
            let done = catch_unwind(AssertUnwindSafe(|| run.step(step)));
            let how = match done {
                Ok(Ok(())) => continue,
                Ok(Err(how)) => how,
                Err(_) => "it panicked".to_owned(),
            };
            return Err(Box::new(Difference {
                steps: at + 1,
                how,
                log: run.log,
            }));
        }
        Ok(run.counts)
    }

    /// Runs all steps.
    ///
    /// # Panics
    /// If server and model differ. The message has a shortened list of steps.
    fn check(&self) -> Counts {
        let right = Mistakes::default();
        let difference = match self.run(&self.steps, right) {
            Ok(counts) => return counts,
            Err(difference) => difference,
        };
        let fails = |steps: &[Step]| self.run(steps, right).is_err();
        let short = shrink(&self.steps[..difference.steps], 3_000, fails);
        let short = self.run(&short, right).err();
        let Difference { how, log, .. } = *short.unwrap_or(difference);
        panic!(
            "with EBB_STEPS={}: {how}\nafter:\n{}",
            requests(),
            log.join(";\n")
        );
    }

    /// Returns whether these mistakes make a run fail that passes without them.
    fn detects(&self, mistakes: Mistakes) -> bool {
        let passes = |mistakes| self.run(&self.steps, mistakes).is_ok();
        passes(Mistakes::default()) && !passes(mistakes)
    }
}

/// A difference between the server and the model, and the steps that lead to it.
struct Difference {
    /// The number of executed steps.
    steps: usize,
    how: String,
    log: Vec<String>,
}

/// Returns the number of requests for each seed.
fn requests() -> u64 {
    number("EBB_STEPS").unwrap_or(STEPS)
}

#[test]
fn random_statements_follow_cassandras_rules() {
    let (mut seeds, mut counts) = (0, Counts::default());
    for_seeds("random_statements_follow_cassandras_rules", SEEDS, |seed| {
        seeds += 1;
        counts.add(Plan::draw(seed, requests()).check());
    });
    println!("{} statements: {counts:?}", counts.statements());
    assert!(counts.rows > seeds, "nothing was looked at: {counts:?}");
}

/// Merges purge at random times, and no reader may notice. In the end they must purge all garbage.
#[test]
fn purging_is_invisible_to_readers_and_purges_all_garbage() {
    let (mut seeds, mut counts) = (0, Counts::default());
    let test = "purging_is_invisible_to_readers_and_purges_all_garbage";
    for_seeds(test, GARBAGE_SEEDS, |seed| {
        seeds += 1;
        counts.add(Plan::draw_garbage(seed, requests()).check());
    });
    println!("{} statements: {counts:?}", counts.statements());
    assert!(counts.purged > 0 || seeds == 1, "no key went in any run");
}

/// Checks that `detects` returns true for each mistake with one of the first seeds.
#[track_caller]
fn assert_detected<M: Copy + Debug>(mistakes: &[M], detects: impl Fn(M, u64) -> bool) {
    let mut undetected = Vec::new();
    for mistake in mistakes {
        match (0..MISTAKE_SEEDS).find(|seed| detects(*mistake, *seed)) {
            Some(seed) => println!("{mistake:?}: detected with seed {seed}"),
            None => undetected.push(*mistake),
        }
    }
    assert!(undetected.is_empty(), "not detected: {undetected:?}");
}

/// Checks the test itself: a model with any of the flaws must differ from the server.
#[test]
fn every_flaw_of_the_model_is_detected() {
    assert_detected(&Flaw::ALL, |flaw, seed| {
        let mistakes = Mistakes {
            model: Some(flaw),
            ..Mistakes::default()
        };
        Plan::draw(seed, STEPS).detects(mistakes)
    });
}

/// Checks the test itself: a server whose merge operator has any of the faults must differ from the
/// model.
#[test]
fn mistakes_of_the_merge_operator_are_detected() {
    assert_detected(&Fault::ALL, |fault, seed| {
        let mistakes = Mistakes {
            merges: Some(fault),
            ..Mistakes::default()
        };
        Plan::draw_garbage(seed, STEPS).detects(mistakes)
    });
}
