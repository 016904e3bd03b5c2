//! Runs that can be dropped without being read: range deletes or truncations have deleted all of
//! their keys, or they have range tombstones only, which delete nothing.

use std::sync::Arc;

use crate::key::{Boundaries, RunId};
use crate::mutation::{self, Mutation};
use crate::runs::Run;

/// Returns the position, in `runs` (newest first), of a run whose content no reader needs; `None`
/// if there is none. Runs for which `is_busy` returns true are passed over. The returned run
/// fulfils one of two conditions:
///
/// - each of its keys lies under range tombstones of one newer run, and no reader reads at a commit
///   between the run's first commit and these tombstones; or
/// - it has range tombstones only, and no older run has a key in their ranges.
pub(crate) fn covered_run(
    runs: &[Arc<Run>],
    boundaries: impl FnOnce() -> Boundaries,
    is_busy: &dyn Fn(RunId) -> bool,
) -> Option<usize> {
    if runs.iter().all(|run| run.range_tombstones().is_none()) {
        return None;
    }
    let boundaries = boundaries();
    (0..runs.len()).find(|&at| !is_busy(runs[at].id()) && is_covered(runs, at, &boundaries))
}

/// Returns whether no reader needs the content of the run at the position `at` of `runs`. If so, no
/// later reader will need it either. If newer tombstones cover the run, every later reader sees
/// them. If the run has tombstones only, and nothing older below them, it hides nothing from any
/// reader.
fn is_covered(runs: &[Arc<Run>], at: usize, boundaries: &Boundaries) -> bool {
    let (newer, run, older) = (&runs[..at], &runs[at], &runs[at + 1..]);
    let stripe = boundaries.stripe(run.meta().smallest_seq);
    let bounds = run.bounds();
    let mut newer = newer.iter().filter_map(|run| run.range_tombstones());
    let same_stripe = |seq| {
        boundaries.stripe(seq) == stripe || mutation::is(Mutation::DropCoveredRunsOfSnapshots)
    };
    newer.any(|t| t.cover(&bounds, same_stripe)) || hides_nothing(run, older)
}

/// Returns whether a run has range tombstones only, and no `older` run has anything in their ranges:
/// neither versions, nor range tombstones, nor unreadable keys.
fn hides_nothing(run: &Run, older: &[Arc<Run>]) -> bool {
    let tombstones = run.range_tombstones().filter(|_| !run.holds_versions());
    tombstones.is_some_and(|tombstones| {
        let mut fragments = tombstones.fragments().iter();
        fragments.all(|fragment| !older.iter().any(|run| run.overlaps(&fragment.range)))
    })
}
