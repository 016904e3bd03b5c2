//! Guards that keep the segments of the log up to a size of the log, for work that may wait for hours.

use crate::sync::{AtomicU64, Ordering};

/// The number of guards is in the bits below this one; above it is the number of times at which all guards
/// were ended. One word has both, so that a drop and an end at the same time count no guard twice.
const ENDED_ONCE: u64 = 1 << 32;

/// The [`BoundedHold`]s of a log, counted. There is no lock: a thread of low priority may drop a guard.
#[derive(Debug)]
pub(super) struct BoundedHolds(AtomicU64);

impl BoundedHolds {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns a new guard.
    pub(super) fn hold(&self) -> BoundedHold<'_> {
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        BoundedHold {
            holds: self,
            ends: ends(before),
        }
    }

    /// Ends all guards that exist.
    pub(super) fn end(&self) {
        let ended = |word: u64| (guards(word) > 0).then(|| (ends(word) + 1) * ENDED_ONCE);
        // An error is that there is no guard.
        let _ = (self.0).fetch_update(Ordering::AcqRel, Ordering::Acquire, ended);
    }

    /// Returns whether there is a guard that was not ended.
    pub(super) fn any(&self) -> bool {
        guards(self.0.load(Ordering::Acquire)) > 0
    }
}

fn guards(word: u64) -> u64 {
    word & (ENDED_ONCE - 1)
}

fn ends(word: u64) -> u64 {
    word / ENDED_ONCE
}

/// A guard that keeps all segments of the log from being deleted until it is dropped or ended:
/// [`Wal::end_bounded_holds`](super::Wal::end_bounded_holds) ends it when the log has become too long.
#[derive(Debug)]
pub(crate) struct BoundedHold<'a> {
    holds: &'a BoundedHolds,
    /// The number of times at which all guards had been ended when this one was made.
    ends: u64,
}

impl BoundedHold<'_> {
    /// Returns whether the guard was ended: segments may be missing.
    pub(crate) fn is_ended(&self) -> bool {
        ends(self.holds.0.load(Ordering::Acquire)) != self.ends
    }
}

impl Drop for BoundedHold<'_> {
    fn drop(&mut self) {
        let dropped = |word: u64| (ends(word) == self.ends).then(|| word - 1);
        // An error is that the guard was ended before, and is not counted any more.
        let _ = (self.holds.0).fetch_update(Ordering::AcqRel, Ordering::Acquire, dropped);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_ended_guard_is_not_counted_again_when_it_drops() {
        let holds = BoundedHolds::new();
        holds.end();
        let [first, second] = [holds.hold(), holds.hold()];
        drop(first);
        assert!(holds.any() && !second.is_ended());
        holds.end();
        assert!(!holds.any() && second.is_ended());
        let third = holds.hold();
        drop(second);
        assert!(holds.any() && !third.is_ended());
        drop(third);
        assert!(!holds.any());
    }
}
