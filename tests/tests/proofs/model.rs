//! Random operations against the model: whatever is flushed, merged, reopened or held open, and
//! whichever picker chooses the merges, every read returns what the model returns.
//!
//! `EBB_STEPS` is the number of operations of each run.

use ebb_storage::Maintenance;
use ebb_test_support::seed::{for_seeds, number};
use ebb_tests::metamorphic::run_drawn;
use ebb_tests::seed::nth_with;
use ebb_tests::setup::configuration::{MAINTENANCE_PERIOD, drawn_maintenance};

#[test]
fn the_database_agrees_with_the_model_whatever_happens_in_whatever_order() {
    let test = "the_database_agrees_with_the_model_whatever_happens_in_whatever_order";
    run(test, Maintenance::Manual, 36);
}

#[test]
fn the_database_agrees_with_the_model_while_threads_flush_and_compact() {
    let test = "the_database_agrees_with_the_model_while_threads_flush_and_compact";
    run(test, Maintenance::Background, 10);
}

fn run(test: &str, maintenance: Maintenance, count: u64) {
    let operations = number("EBB_STEPS").unwrap_or(2000) as usize;
    for_seeds(test, count, |nth| {
        let seed = nth_with(nth, MAINTENANCE_PERIOD, |seed| {
            drawn_maintenance(seed) == maintenance
        });
        run_drawn(seed, operations).unwrap_or_else(|e| panic!("{e:#}"));
    });
}
