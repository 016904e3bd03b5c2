//! Random operations against the model: whatever is flushed, merged, reopened or
//! held open, and whatever picker says what is merged, every read gives what the
//! model gives.
//!
//! Replay a failure with `EBB_SEED=<seed>`, longer or shorter with
//! `EBB_STEPS=<operations>`.

use ebb_storage::Maintenance;
use ebb_tests::metamorphic::run_drawn;
use ebb_tests::seed::{env, for_seeds};
use ebb_tests::setup::configuration::drawn_maintenance;

#[test]
fn the_database_agrees_with_the_model_whatever_happens_in_whatever_order() {
    run(Maintenance::Manual, 60);
}

#[test]
fn the_database_agrees_with_the_model_while_threads_flush_and_compact() {
    run(Maintenance::Background, 16);
}

fn run(maintenance: Maintenance, seeds: usize) {
    let operations = env("EBB_STEPS").unwrap_or(2000) as usize;
    let all = (0..).filter(|seed| drawn_maintenance(*seed) == maintenance);
    for_seeds(all, seeds, |seed| {
        run_drawn(seed, operations).unwrap_or_else(|e| panic!("{e:#}"));
    });
}
