//! Turns at partitions. Writes that read the row they write wait for their turn.
//!
//! ```text
//!   connection ─ hashes of the partitions ──> all turns are free: runs at once
//!                                             otherwise: a task waits for them, in the order of
//!                                             the requests, and runs then
//! ```
//!
//! Without turns, writers of one row would find out only at commit that they conflict, and all but
//! one would begin anew. The store detects these conflicts, because such a write guards every key and
//! range that it reads, writes or deletes (see `Execution` in `write`). So turns do not have to be
//! exact: partitions share them by hash, requests that are executed in the commit lane or take long
//! have none, and one whose deadline passes runs without them.
//!
//! A waiting request holds no thread, and a request with turns releases them before it waits for
//! anything else. Several turns are taken in ascending order, so there is no deadlock.

use tokio::sync::{Mutex, MutexGuard};

/// The number of stripes (locks that partitions share by hash); a power of two. If 63 other
/// requests are in progress for other partitions, a request shares its stripe with one of them with
/// a probability of 1.5%.
const STRIPES: usize = 4096;

#[derive(Debug)]
pub(super) struct Turns {
    stripes: Vec<Mutex<()>>,
}

/// The numbers of the stripes (locks) of the partitions that a request has to wait for, ascending
/// and distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stripes(Vec<usize>);

impl Stripes {
    /// Returns the stripes (locks that partitions share by hash) for `turns`, the hashes of
    /// partitions; `None` if `turns` is empty.
    pub(super) fn of(turns: &[u64]) -> Option<Self> {
        let mut stripes: Vec<usize> = turns.iter().map(|n| *n as usize % STRIPES).collect();
        stripes.sort_unstable();
        stripes.dedup();
        (!stripes.is_empty()).then_some(Self(stripes))
    }
}

/// The stripes (locks that partitions share by hash) that a request has locked. They are unlocked
/// when this is dropped.
#[derive(Debug)]
pub(super) struct TurnGuard<'t>(#[expect(dead_code, reason = "held")] Vec<MutexGuard<'t, ()>>);

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Locks all of these stripes if they are free and no other request waits for one of them.
    /// Otherwise locks none, and returns `None`.
    pub(super) fn try_take(&self, stripes: &Stripes) -> Option<TurnGuard<'_>> {
        let one = |stripe: &usize| self.stripes[*stripe].try_lock().ok();
        let guards: Option<_> = stripes.0.iter().map(one).collect();
        guards.map(TurnGuard)
    }

    /// Locks all of these stripes (locks that partitions share by hash), one after the other, and
    /// waits for each that another request has locked.
    pub(super) async fn take(&self, stripes: &Stripes) -> TurnGuard<'_> {
        let mut guards = Vec::with_capacity(stripes.0.len());
        for stripe in &stripes.0 {
            guards.push(self.stripes[*stripe].lock().await);
        }
        TurnGuard(guards)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn turns_are_taken_in_ascending_order_and_each_once() {
        let count = STRIPES as u64;
        assert_eq!(Stripes::of(&[]), None);
        let stripes = Stripes::of(&[9, 3, 9 + count, 3]).unwrap();
        assert_eq!(stripes.0, [3, 9]);
    }

    #[tokio::test]
    async fn a_waiting_request_gets_its_turn_before_try_take() {
        let turns = Arc::new(Turns::new());
        let stripes = Stripes::of(&[1, 2]).unwrap();
        let held = turns.try_take(&stripes).unwrap();
        assert!(turns.try_take(&Stripes::of(&[2]).unwrap()).is_none());
        assert!(turns.try_take(&Stripes::of(&[3]).unwrap()).is_some());
        let waits = tokio::spawn({
            let (turns, stripes) = (turns.clone(), stripes.clone());
            async move { drop(turns.take(&stripes).await) }
        });
        tokio::task::yield_now().await;
        drop(held);
        // The waiting request has the turn already, although it has not run yet.
        assert!(turns.try_take(&Stripes::of(&[1]).unwrap()).is_none());
        waits.await.unwrap();
        assert!(turns.try_take(&stripes).is_some());
    }

    #[tokio::test]
    async fn a_request_that_stops_waiting_releases_its_turns() {
        let turns = Turns::new();
        let stripes = Stripes::of(&[1, 2]).unwrap();
        let second = turns.try_take(&Stripes::of(&[2]).unwrap()).unwrap();
        let waits = timeout(Duration::from_millis(5), turns.take(&stripes));
        assert!(waits.await.is_err());
        assert!(turns.try_take(&Stripes::of(&[1]).unwrap()).is_some());
        drop(second);
        assert!(turns.try_take(&stripes).is_some());
    }
}
