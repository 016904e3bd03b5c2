//! When a thread of a low class lets the kernel choose anew who gets its core.
//!
//! An ordinary thread that wakes up does not always displace one of the idle class: beside
//! a load, one wake-up in a hundred did not, though the other ran its own code, and went on
//! until the core next had to choose, at the tick or for another thread. The trace shows
//! that, not why. (An idle-class thread has a small share too, and under EEVDF a woken
//! thread that has had more than its own is not eligible.) So a task asks the kernel to
//! choose far more often.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Wall time between two such moments. Each is a system call of less than half a
/// microsecond where nobody waits.
const YIELD_EVERY: Duration = Duration::from_micros(50);

/// Of one thread. Threads of the ordinary class never yield: for them it would mean to
/// give up their share.
#[derive(Debug)]
pub(in crate::runtime) struct Yielding(Option<Cell<Instant>>);

impl Yielding {
    /// From `now` on, if this thread `yields` at all.
    pub fn new(yields: bool, now: Instant) -> Self {
        Self(yields.then(|| Cell::new(now)))
    }

    /// Whether it is time again.
    pub fn is_due(&self, now: Instant) -> bool {
        let since = |last: Instant| now.saturating_duration_since(last);
        (self.0.as_ref()).is_some_and(|last| since(last.get()) >= YIELD_EVERY)
    }

    /// It yielded, and has its core again from `now` on. Other tasks may have had it for
    /// long: the next time counts from here, or tasks of one core would only take turns.
    pub fn returned(&self, now: Instant) {
        if let Some(last) = &self.0 {
            last.set(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_yields_now_and_then_or_never() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let yielding = Yielding::new(true, start);
        assert!(!yielding.is_due(at(49)) && yielding.is_due(at(50)));
        yielding.returned(at(300));
        assert!(!yielding.is_due(at(349)) && yielding.is_due(at(350)));
        let never = Yielding::new(false, start);
        never.returned(at(50));
        assert!(!never.is_due(at(500)));
    }
}
