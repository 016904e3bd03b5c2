//! Transactions run under snapshot isolation: histories of random transactions, from opening a
//! database to closing it or to a power loss, each judged by two checkers. `EBB_TRANSACTIONS` is
//! the number of transactions of each run.

use ebb_test_support::seed::{for_seeds, number};
use ebb_tests::isolation::{self, Report, Sabotage};

fn run(seed: u64, threads: usize, crashes: bool) -> Report {
    let transactions = number("EBB_TRANSACTIONS").unwrap_or(5_000);
    let report = isolation::run(seed, threads, transactions, crashes);
    println!("{report}");
    report
}

fn assert_clean(report: &Report) {
    assert!(report.failures.is_empty(), "{report}");
    // A run with hardly any commits or refusals proves nothing.
    assert!(
        report.committed > report.transactions_checked / 5,
        "{report}"
    );
    assert!(
        report.conflicts > report.transactions_checked / 100,
        "{report}"
    );
}

#[test]
fn interleaved_transactions_are_under_snapshot_isolation() {
    let test = "interleaved_transactions_are_under_snapshot_isolation";
    for_seeds(test, 1, |seed| assert_clean(&run(seed, 1, false)));
}

#[test]
fn transactions_of_many_threads_are_under_snapshot_isolation() {
    let test = "transactions_of_many_threads_are_under_snapshot_isolation";
    for_seeds(test, 1, |seed| assert_clean(&run(seed, 4, false)));
}

#[test]
fn snapshot_isolation_and_what_was_acknowledged_survive_power_losses() {
    let test = "snapshot_isolation_and_what_was_acknowledged_survive_power_losses";
    for_seeds(test, 1, |seed| {
        for threads in [1, 4] {
            let report = run(seed, threads, true);
            assert_clean(&report);
            assert!(report.unknown > report.lives / 10, "{report}");
        }
    });
}

/// With a single worker, a history repeats step by step.
#[test]
fn a_run_of_one_thread_repeats_from_its_seed() {
    let counts = |report: Report| {
        (
            report.transactions_checked,
            report.committed,
            report.conflicts,
        )
    };
    let (one, two) = (isolation::run(7, 1, 1, true), isolation::run(7, 1, 1, true));
    assert_eq!(counts(one), counts(two));
}

#[test]
fn a_store_that_does_not_validate_is_caught() {
    let report = isolation::run_sabotaged(1, 1, 5_000, false, Sabotage::NoValidation);
    let lost = |failure: &String| failure.contains("lost-update") || failure.contains("G-single");
    assert!(report.failures.iter().any(lost), "{report}");
}

#[test]
fn a_store_that_reads_the_present_is_caught() {
    let report = isolation::run_sabotaged(1, 1, 5_000, false, Sabotage::ReadsNow);
    let by_numbers = |failure: &String| failure.contains("read of key");
    assert!(report.failures.iter().any(by_numbers), "{report}");
}
