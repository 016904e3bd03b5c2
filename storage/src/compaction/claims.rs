//! The runs that are being merged, so that no two merges take the same run.

use std::cell::Cell;
use std::collections::HashSet;

use super::lanes::{Lanes, UnderWay};
use crate::key::RunId;
use crate::mutation::{self, Mutation};
use crate::sync::{Condvar, Mutex};

/// The merges under way. A merge claims its runs before it begins. It releases them after the
/// version of the table no longer has them, or after the merge has ended without replacing them. So
/// a run is free if, while `state` is locked, the version of its table has the run and no merge has
/// claimed it.
#[derive(Debug)]
pub(crate) struct Claims {
    lanes: Lanes,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    busy: HashSet<RunId>,
    under_way: UnderWay,
    /// Bytes that the merges under way may still need on the disk.
    reserved_bytes: u64,
    /// The number of merges that have ended.
    ended: u64,
}

/// Runs that are reserved for one merge, until the claim is dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    runs: Vec<RunId>,
    is_long: bool,
    writes_bytes: u64,
    /// The bytes of disk space that are reserved for the rest of the merge's output, estimated.
    reserved_bytes: Cell<u64>,
}

impl Claims {
    /// Returns a list of claims, empty as yet, that allows at most `merges_max` merges at once. A
    /// merge is long if it reads `long_bytes` or more. If one of the limits is 0, it is raised to
    /// 1: a merge that drops runs unread reads 0 bytes, and must count as short.
    pub(crate) fn new(merges_max: usize, long_bytes: u64) -> Self {
        Self {
            lanes: Lanes {
                merges_max: merges_max.max(1),
                long_bytes: long_bytes.max(1),
            },
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Claims `runs` for a merge that reads `reads_bytes`, and reserves `writes_bytes` of disk
    /// space for its output. Calls `current` while no other thread can claim or release runs.
    /// `current` returns `None` if the table no longer has the runs, or else the data of the
    /// table's present version that the caller needs; the result has this data, too.
    ///
    /// Returns `None` if the merge must not begin: another thread has claimed or merged the runs
    /// meanwhile, or no further merge of this size may begin beside those under way.
    pub(crate) fn claim<T>(
        &self,
        runs: &[RunId],
        (reads_bytes, writes_bytes): (u64, u64),
        current: impl FnOnce() -> Option<T>,
    ) -> Option<(Claim<'_>, T)> {
        let mut state = self.state.lock().unwrap();
        let bytes_below = self.lanes.bytes_below(state.under_way);
        if bytes_below.is_none_or(|below| reads_bytes >= below) {
            return None;
        }
        let is_busy = |run: &RunId| state.busy.contains(run);
        if runs.iter().any(is_busy) && !mutation::is(Mutation::ClaimNothing) {
            return None;
        }
        let current = current()?;
        state.busy.extend(runs);
        let is_long = self.lanes.is_long(reads_bytes);
        state.under_way.merges += 1;
        state.under_way.long += usize::from(is_long);
        state.reserved_bytes = state.reserved_bytes.saturating_add(writes_bytes);
        let claim = Claim {
            claims: self,
            runs: runs.to_vec(),
            is_long,
            writes_bytes,
            reserved_bytes: Cell::new(writes_bytes),
        };
        Some((claim, current))
    }

    /// Returns the runs that are claimed now. Another thread may claim runs right afterwards:
    /// merges are chosen without a lock on the claims, because a picker may take long. So
    /// [`Claims::claim`] checks again.
    pub(crate) fn busy(&self) -> HashSet<RunId> {
        let none = mutation::is(Mutation::ClaimNothing);
        let state = self.state.lock().unwrap();
        if none {
            HashSet::new()
        } else {
            state.busy.clone()
        }
    }

    /// Returns the limit below which the input of the next merge must stay, in bytes: see
    /// [`Lanes::bytes_below`]. `None` if no merge may begin.
    pub(crate) fn bytes_below(&self) -> Option<u64> {
        let under_way = self.state.lock().unwrap().under_way;
        self.lanes.bytes_below(under_way)
    }

    /// Returns the bytes that the merges under way may still need on the disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.state.lock().unwrap().reserved_bytes
    }

    /// Returns the number of merges under way.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().unwrap().under_way.merges
    }

    /// Returns the number of merges that have ended so far, for [`Self::wait_for_another_end`].
    pub(crate) fn ended(&self) -> u64 {
        self.state.lock().unwrap().ended
    }

    /// Waits until more than `seen` merges have ended, and returns true. Returns false if no merge
    /// is under way that could end.
    pub(crate) fn wait_for_another_end(&self, seen: u64) -> bool {
        let mut state = self.state.lock().unwrap();
        while state.ended == seen && state.under_way.merges > 0 {
            state = self.ended.wait(state).unwrap();
        }
        state.ended > seen
    }
}

impl Claim<'_> {
    /// Reduces the disk space that is reserved for the merge, after it has written `bytes` in all:
    /// the disk no longer reports these bytes as free, so they must not be reserved as well.
    pub(crate) fn note_written(&self, bytes: u64) {
        let reserved_bytes = self.writes_bytes.saturating_sub(bytes);
        let before = self.reserved_bytes.replace(reserved_bytes);
        let mut state = self.claims.state.lock().unwrap();
        state.reserved_bytes =
            (state.reserved_bytes.saturating_sub(before)).saturating_add(reserved_bytes);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.claims.state.lock().unwrap();
        for run in &self.runs {
            state.busy.remove(run);
        }
        state.under_way.merges -= 1;
        state.under_way.long -= usize::from(self.is_long);
        state.reserved_bytes = state
            .reserved_bytes
            .saturating_sub(self.reserved_bytes.get());
        state.ended += 1;
        self.claims.ended.notify_all();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Regression: the output of a merge counted twice, as used and as reserved, so a short merge
    /// beside a long one found no space.
    #[test]
    fn written_bytes_are_no_longer_reserved() {
        let claims = Claims::new(2, 100);
        let claim = |run, bytes| claims.claim(&[RunId(run)], bytes, || Some(()));
        let (long, ()) = claim(1, (1000, 800)).unwrap();
        assert!(claim(2, (100, 100)).is_none(), "one long merge is enough");
        let (short, ()) = claim(2, (99, 90)).unwrap();
        assert_eq!(claims.reserved_bytes(), 890);
        long.note_written(500);
        assert_eq!(claims.reserved_bytes(), 390);
        long.note_written(900);
        assert_eq!(claims.reserved_bytes(), 90);
        drop(long);
        assert_eq!(claims.reserved_bytes(), 90);
        drop(short);
        assert_eq!((claims.reserved_bytes(), claims.running()), (0, 0));
    }

    /// Regression: beside a long merge, the claim of a merge that reads nothing was refused for
    /// ever, and the thread called its picker in a loop.
    #[test]
    fn a_merge_without_reads_may_begin_beside_a_long_merge() {
        let claims = Claims::new(2, 0);
        let claim = |run, bytes| claims.claim(&[RunId(run)], (bytes, bytes), || Some(()));
        let _long = claim(1, 10).expect("nothing is under way");
        assert!(claim(2, 10).is_none());
        assert!(claim(2, 0).is_some());
    }
}
