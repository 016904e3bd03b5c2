//! Turns at partitions: writes that read what they write to wait for each other.
//!
//! ```text
//!   connection ─ numbers of its partitions ─> all turns are free: it runs at once
//!                                             else a task waits for them, in the order in
//!                                             which requests came, and runs then
//! ```
//!
//! Without turns, writers of one row would only find out at their commits that they were in
//! each other's way, and all but one would begin anew. The store finds that out anyway, so
//! turns need not be exact: partitions share them by their hash, and whoever is executed
//! elsewhere (by the commit lane) takes none.
//!
//! Nobody holds a thread while waiting, and whoever has a turn gives it back before it waits
//! for anything else. Several turns are taken in ascending order, so no two requests wait for
//! each other.

use tokio::sync::{Mutex, MutexGuard};

/// Stripes, a power of two: of 64 requests at different partitions hardly two share one.
const STRIPES: usize = 4096;

#[derive(Debug)]
pub(super) struct Turns {
    stripes: Vec<Mutex<()>>,
}

/// The turns that a request waits for: stripes, ascending, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stripes(Vec<usize>);

impl Stripes {
    /// None where there is nothing to take turns at.
    pub(super) fn of(turns: &[u64]) -> Option<Self> {
        let mut stripes: Vec<usize> = turns.iter().map(|n| *n as usize % STRIPES).collect();
        stripes.sort_unstable();
        stripes.dedup();
        (!stripes.is_empty()).then_some(Self(stripes))
    }
}

/// Turns that are held, until this is dropped.
#[derive(Debug)]
pub(super) struct TurnGuard<'t>(#[expect(dead_code, reason = "held")] Vec<MutexGuard<'t, ()>>);

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
        }
    }

    /// All turns, where they are free and nobody waits for one of them.
    pub(super) fn try_take(&self, stripes: &Stripes) -> Option<TurnGuard<'_>> {
        let one = |stripe: &usize| self.stripes[*stripe].try_lock().ok();
        let guards: Option<_> = stripes.0.iter().map(one).collect();
        guards.map(TurnGuard)
    }

    /// All turns, when they are free.
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
    fn turns_are_taken_in_one_order_and_each_once() {
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
        // The one that waits has the turn already, although it has not run yet.
        assert!(turns.try_take(&Stripes::of(&[1]).unwrap()).is_none());
        waits.await.unwrap();
        assert!(turns.try_take(&stripes).is_some());
    }

    #[tokio::test]
    async fn a_request_that_stops_waiting_returns_the_turns_it_has() {
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
