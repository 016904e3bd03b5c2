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
//! while writes and restarts go on.
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

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebb_test_support::seed::{for_seeds, number};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

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

/// The number of seeds within which a flaw must be detected.
const FLAW_SEEDS: u64 = 150;

fn draw(seed: u64, requests: u64) -> (Schema, Vec<Step>) {
    let mut generator = Generator::new(ChaCha8Rng::seed_from_u64(seed), BEGIN_S);
    let schema = generator.schema().clone();
    (schema, generator.steps(requests as usize))
}

/// A difference between the server and the model, and the steps that lead to it.
struct Difference {
    /// The number of executed steps.
    steps: usize,
    how: String,
    log: Vec<String>,
}

fn run(
    schema: &Schema,
    seed: u64,
    steps: &[Step],
    flaw: Option<Flaw>,
) -> Result<Counts, Box<Difference>> {
    let mut run = Run::new(schema, seed, flaw);
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

#[test]
fn random_statements_follow_cassandras_rules() {
    let requests = number("EBB_STEPS").unwrap_or(STEPS);
    let (mut seeds, mut counts) = (0, Counts::default());
    let test = "random_statements_follow_cassandras_rules";
    for_seeds(test, SEEDS, |seed| {
        seeds += 1;
        let (schema, steps) = draw(seed, requests);
        let difference = match run(&schema, seed, &steps, None) {
            Ok(of_seed) => return counts.add(of_seed),
            Err(difference) => difference,
        };
        let fails = |steps: &[Step]| run(&schema, seed, steps, None).is_err();
        let short = shrink(&steps[..difference.steps], 3_000, fails);
        let short = run(&schema, seed, &short, None).err();
        let Difference { how, log, .. } = *short.unwrap_or(difference);
        panic!(
            "with EBB_STEPS={requests}: {how}\nafter:\n{}",
            log.join(";\n")
        );
    });
    println!("{} statements: {counts:?}", counts.statements());
    assert!(counts.rows > seeds, "nothing was looked at: {counts:?}");
}

/// Checks the test itself: a model with any of the flaws must differ from the server.
#[test]
fn every_flaw_of_the_model_is_detected() {
    let mut undetected = Vec::new();
    for flaw in Flaw::ALL {
        let detects = |seed: &u64| {
            let (schema, steps) = draw(*seed, STEPS);
            let without = run(&schema, *seed, &steps, None);
            without.is_ok() && run(&schema, *seed, &steps, Some(flaw)).is_err()
        };
        match (0..FLAW_SEEDS).find(detects) {
            Some(seed) => println!("{flaw:?}: detected with seed {seed}"),
            None => undetected.push(flaw),
        }
    }
    assert!(undetected.is_empty(), "not detected: {undetected:?}");
}
