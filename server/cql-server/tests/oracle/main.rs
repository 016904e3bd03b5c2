//! Random statements, held against a plain model of Cassandra's rules.
//!
//! ```text
//!   generate ── steps ─┬─► server   the executor over a database in memory
//!                      └─► model    maps, written from Cassandra's rules alone
//!                              run: both must show the same, page by page
//! ```
//!
//! Each seed draws a table (one or two columns of the partition key, up to three of
//! clustering in any order, static columns, collections, user-defined types frozen or not,
//! tuples, a default TTL, gc_grace) and some hundred requests: INSERT, UPDATE and DELETE of
//! columns, elements, rows, ranges and partitions, by `=`, IN, slices and tuples, alone or
//! in batches of either form, with timestamps of the statement, the batch, the request or
//! the server, in any order and often equal. Some requests have IF, alone or in batches, and
//! some add to counters, beside each other and in batches. In between the clock goes on, past gc_grace
//! too; memtables are flushed and runs are merged; the server starts again; columns are
//! added and dropped, and indexes; snapshots are taken. SELECTs restrict, order, limit and
//! filter, with an index or without, from the table and from snapshots in each form, at once or page by page, while writers go on
//! and over restarts.
//!
//! `definitions` does so with statements that change the schema.
//!
//! `EBB_STEPS` is the number of requests of each seed. See `ebb_test_support::seed` for how to
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

/// Seeds of a run, and requests of a seed, unless the environment says how many.
const SEEDS: u64 = 12;
const STEPS: u64 = 250;

/// Seeds in which a flaw must be noticed.
const FLAW_SEEDS: u64 = 150;

fn draw(seed: u64, requests: u64) -> (Schema, Vec<Step>) {
    let mut generator = Generator::new(ChaCha8Rng::seed_from_u64(seed), BEGIN_S);
    let schema = generator.schema().clone();
    (schema, generator.steps(requests as usize))
}

/// A difference, with what led to it.
struct Difference {
    /// How many steps were taken.
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
fn random_statements_leave_what_cassandras_rules_say() {
    let requests = number("EBB_STEPS").unwrap_or(STEPS);
    let (mut seeds, mut counts) = (0, Counts::default());
    let test = "random_statements_leave_what_cassandras_rules_say";
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

/// Would it notice? The model is made wrong in one way, and must differ from the server.
#[test]
fn every_flaw_of_the_model_is_noticed() {
    let mut unnoticed = Vec::new();
    for flaw in Flaw::ALL {
        let notices = |seed: &u64| {
            let (schema, steps) = draw(*seed, STEPS);
            let without = run(&schema, *seed, &steps, None);
            without.is_ok() && run(&schema, *seed, &steps, Some(flaw)).is_err()
        };
        match (0..FLAW_SEEDS).find(notices) {
            Some(seed) => println!("{flaw:?}: noticed with seed {seed}"),
            None => unnoticed.push(flaw),
        }
    }
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
