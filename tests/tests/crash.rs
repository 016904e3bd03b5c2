//! Power lost at every I/O call of lists of operations, and again in the recovery.
//!
//! A failure names the case, which `soak --replay` runs again; `EBB_SEED=<seed>` runs
//! the whole list.

use ebb_storage::Durability::{self, Os, Sync};
use ebb_tests::crash::{Kind, durability, kind, run};
use ebb_tests::report::{Budget, Counter};
use ebb_tests::seed::for_seeds;

#[test]
fn power_lost_at_any_call_loses_nothing_that_was_synced() {
    crash_everywhere(&[Kind::Plain], &[Sync], 5);
}

#[test]
fn power_lost_at_any_call_leaves_a_prefix_of_the_commits() {
    crash_everywhere(&[Kind::Plain], &[Os], 10);
}

#[test]
fn power_lost_at_any_call_leaves_each_ingest_whole_or_not_at_all() {
    crash_everywhere(&[Kind::Ingests], &[Sync, Os], 2);
}

/// A drop is not undone and takes nothing with it that a snapshot sees, and in the
/// end nothing is left of it.
#[test]
fn power_lost_at_any_call_leaves_tables_and_their_snapshots_as_they_were() {
    crash_everywhere(&[Kind::Drops], &[Sync, Os], 4);
}

/// Threads flush and compact: where a call comes is chance, so this samples.
#[test]
fn power_lost_while_threads_flush_and_compact_leaves_a_prefix_of_the_commits() {
    crash_everywhere(&[Kind::Threads], &[Sync, Os], 8);
}

fn crash_everywhere(kinds: &[Kind], durabilities: &[Durability], seeds: usize) {
    let all = (0..)
        .filter(|seed| kinds.contains(&kind(*seed)) && durabilities.contains(&durability(*seed)));
    for_seeds(all, seeds, |seed| {
        let report = run(seed, &Budget::UNLIMITED);
        assert!(report.counted(Counter::CrashPoints) > 20);
        if let Some(first) = report.failures.first() {
            panic!(
                "{} failures, the first with soak --replay {}: {}",
                report.failures.len(),
                first.replay,
                first.detail
            );
        }
    });
}
