//! The time for which runs have been left out of merges.

use std::collections::{BTreeMap, HashSet};

use super::Engine;
use crate::key::{RunId, TableId};
use crate::runs::Run;
use crate::sync::Mutex;

/// The runs that merges leave out, each with the time at which a look first found it. The times are
/// values of [`Clock::elapsed_ms`](crate::Clock::elapsed_ms), which begins anew when the process starts.
#[derive(Debug, Default)]
pub(crate) struct Unmergeable(Mutex<BTreeMap<(TableId, RunId), u64>>);

impl Unmergeable {
    /// Notes the runs that merges leave out now. Returns how long the oldest of them has been found, in
    /// milliseconds; 0 if there are none.
    fn look(&self, runs: Vec<(TableId, RunId)>, elapsed_ms: u64) -> u64 {
        let mut found = self.0.lock().unwrap();
        let before = std::mem::take(&mut *found);
        found.extend(runs.into_iter().map(|run| {
            let since_ms = before.get(&run).copied().unwrap_or(elapsed_ms);
            (run, since_ms)
        }));
        let oldest_ms = found.values().min().copied().unwrap_or(elapsed_ms);
        elapsed_ms.saturating_sub(oldest_ms)
    }
}

/// Returns whether merges leave a run out: because of a file that is damaged or cannot be read, or because
/// the run is among those that are `left_out` for a while.
pub(super) fn is_unmergeable(run: &Run, left_out: &HashSet<RunId>) -> bool {
    !run.is_mergeable() || left_out.contains(&run.id())
}

impl Engine {
    /// Returns the time since a look first found the run that has been left out of merges for the longest
    /// time, in milliseconds; 0 without such a run.
    pub(super) fn oldest_unmergeable_ms(&self) -> u64 {
        let mut out = Vec::new();
        for table in self.tables() {
            let (version, left_out) = (table.version(), table.left_out.all());
            let runs = version
                .all_runs()
                .filter(|run| is_unmergeable(run, &left_out));
            out.extend(runs.map(|run| (table.id, run.id())));
        }
        self.unmergeable.look(out, self.elapsed_ms())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_run_that_is_still_out_counts() {
        let unmergeable = Unmergeable::default();
        let run = |id| (TableId(1), RunId(id));
        for (out, elapsed_ms, oldest_ms) in [
            (vec![], 5, 0),
            (vec![run(1)], 10, 0),
            (vec![run(1), run(2)], 30, 20),
            // The first run was restored.
            (vec![run(2)], 35, 5),
            (vec![], 40, 0),
            (vec![run(1)], 50, 0),
        ] {
            let found_ms = unmergeable.look(out, elapsed_ms);
            assert_eq!(found_ms, oldest_ms, "at {elapsed_ms}");
        }
    }
}
