//! Power losses at every I/O call of lists of operations, and again in the recovery.
//!
//! A failure names its case, and `soak --replay` runs that case again.

use ebb_storage::Durability::{self, Os, Sync};
use ebb_test_support::seed::for_seeds;
use ebb_tests::crash::{Kind, PERIOD, durability, kind, run};
use ebb_tests::report::{Budget, Counter};
use ebb_tests::seed::nth_with;

#[test]
fn power_lost_at_any_call_loses_nothing_that_was_synced() {
    let test = "power_lost_at_any_call_loses_nothing_that_was_synced";
    crash_everywhere(test, &[Kind::Plain], &[Sync], 3);
}

#[test]
fn power_lost_at_any_call_leaves_a_prefix_of_the_commits() {
    let test = "power_lost_at_any_call_leaves_a_prefix_of_the_commits";
    crash_everywhere(test, &[Kind::Plain], &[Os], 6);
}

#[test]
fn power_lost_at_any_call_leaves_each_ingest_whole_or_not_at_all() {
    let test = "power_lost_at_any_call_leaves_each_ingest_whole_or_not_at_all";
    crash_everywhere(test, &[Kind::Ingests], &[Sync, Os], 2);
}

/// A power loss does not undo the drop of a table. Snapshots keep the content of a dropped table,
/// and its files are removed once nothing needs them.
#[test]
fn power_lost_at_any_call_leaves_tables_and_their_snapshots_as_they_were() {
    let test = "power_lost_at_any_call_leaves_tables_and_their_snapshots_as_they_were";
    crash_everywhere(test, &[Kind::Drops], &[Sync, Os], 3);
}

/// While threads flush and compact, the order of the I/O calls is random, so this test does not
/// lose power at each call but at a sample of them.
#[test]
fn power_lost_while_threads_flush_and_compact_leaves_a_prefix_of_the_commits() {
    let test = "power_lost_while_threads_flush_and_compact_leaves_a_prefix_of_the_commits";
    crash_everywhere(test, &[Kind::Threads], &[Sync, Os], 5);
}

fn crash_everywhere(test: &str, kinds: &[Kind], durabilities: &[Durability], count: u64) {
    for_seeds(test, count, |nth| {
        let seed = nth_with(nth, PERIOD, |seed| {
            kinds.contains(&kind(seed)) && durabilities.contains(&durability(seed))
        });
        let report = run(seed, &Budget::UNLIMITED);
        if let Some(first) = report.failures.first() {
            panic!(
                "{} failures, the first with soak --replay {}: {}",
                report.failures.len(),
                first.replay,
                first.detail
            );
        }
        // The number of I/O calls depends on the scheduler if background threads make some of them.
        let few = if kind(seed) == Kind::Threads { 0 } else { 20 };
        assert!(report.counted(Counter::CrashPoints) > few);
    });
}
