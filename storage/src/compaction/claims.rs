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

/// What comes of asking for runs.
#[derive(Debug)]
pub(crate) enum Claiming<'a, T> {
    Yours(Claim<'a>, T),
    /// Somebody was faster: the runs are claimed, or merged already.
    Gone,
    /// No merge more is to run.
    Full,
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

    /// Claims runs for a merge. `current` tells, while nobody else can claim or give
    /// back, whether the table still has them, and with what beside them.
    pub(crate) fn claim<T>(
        &self,
        runs: &[RunId],
        current: impl FnOnce() -> Option<T>,
    ) -> Claiming<'_, T> {
        let mut state = self.state.lock().unwrap();
        if state.merges >= self.merges_max {
            return Claiming::Full;
        }
        let is_busy = |run: &RunId| state.busy.contains(run);
        if runs.iter().any(is_busy) && !mutation::is(Mutation::ClaimNothing) {
            return Claiming::Gone;
        }
        let Some(current) = current() else {
            return Claiming::Gone;
        };
        state.busy.extend(runs);
        state.merges += 1;
        let runs = runs.to_vec();
        Claiming::Yours(Claim { claims: self, runs }, current)
    }

    /// The runs that are claimed now. Merges are decided on without the lock, which
    /// nobody is to wait for while a picker thinks; [`Claims::claim`] looks again.
    pub(crate) fn busy(&self) -> HashSet<RunId> {
        let none = mutation::is(Mutation::ClaimNothing);
        let state = self.state.lock().unwrap();
        if none {
            HashSet::new()
        } else {
            state.busy.clone()
        }
    }

    /// Whether no merge more is to run.
    pub(crate) fn is_full(&self) -> bool {
        self.running() >= self.merges_max
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
