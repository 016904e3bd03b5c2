//! Which runs are being merged, so that merges beside each other never meet.

use std::collections::HashSet;

use crate::key::RunId;
use crate::mutation::{self, Mutation};
use crate::sync::{Condvar, Mutex};

/// The merges under way. A run is claimed before it is merged, by one merge, and
/// until the version of its table no longer has it: whoever looks at a version
/// under this lock, and finds a run in it that nobody claims, may have it.
#[derive(Debug)]
pub(crate) struct Claims {
    merges_max: usize,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    busy: HashSet<RunId>,
    merges: usize,
    /// How many merges have ended.
    ended: u64,
}

/// Runs that are this merge's own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    runs: Vec<RunId>,
}

impl Claims {
    /// For at most `merges_max` merges at once; at least one.
    pub(crate) fn new(merges_max: usize) -> Self {
        Self {
            merges_max: merges_max.max(1),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Claims the runs that `choose` names; it is told of each run whether it is
    /// busy. `None` when it names none, or no merge more is to run.
    pub(crate) fn claim<T>(
        &self,
        choose: impl FnOnce(&dyn Fn(RunId) -> bool) -> Option<(Vec<RunId>, T)>,
    ) -> Option<(Claim<'_>, T)> {
        let mut state = self.state.lock().unwrap();
        if state.merges >= self.merges_max {
            return None;
        }
        let unclaimed = mutation::is(Mutation::ClaimNothing);
        let (runs, chosen) = choose(&|run| state.busy.contains(&run) && !unclaimed)?;
        for &run in &runs {
            assert!(
                state.busy.insert(run) || unclaimed,
                "a picker picks no busy run"
            );
        }
        state.merges += 1;
        Some((Claim { claims: self, runs }, chosen))
    }

    /// Runs `look` with the runs as they are claimed.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&dyn Fn(RunId) -> bool) -> T) -> T {
        let state = self.state.lock().unwrap();
        look(&|run| state.busy.contains(&run))
    }

    /// Merges under way.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().unwrap().merges
    }

    /// How many merges have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.state.lock().unwrap().ended
    }

    /// Returns once more than `seen` merges have ended; false when none is under
    /// way that could.
    pub(crate) fn wait_for_another_end(&self, seen: u64) -> bool {
        let mut state = self.state.lock().unwrap();
        while state.ended == seen && state.merges > 0 {
            state = self.ended.wait(state).unwrap();
        }
        state.ended > seen
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.claims.state.lock().unwrap();
        for run in &self.runs {
            state.busy.remove(run);
        }
        state.merges -= 1;
        state.ended += 1;
        self.claims.ended.notify_all();
    }
}
