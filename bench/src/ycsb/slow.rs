//! Slow operations one by one, for who wants to know where each of them was.

use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

/// An operation that took long. Times are microseconds of the monotonic clock, which the
/// kernel's traces can have too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowOperation {
    /// The thread that did it, by the kernel's id.
    pub thread: u32,
    /// When it was due.
    pub due_us: u64,
    /// When the thread took it.
    pub taken_us: u64,
    /// When it was done.
    pub ended_us: u64,
}

/// The slow operations of one thread, which is the one that makes this.
#[derive(Debug)]
pub(super) struct SlowOperations {
    from: Option<Duration>,
    thread: u32,
    /// A moment on both clocks.
    moment: (Instant, u64),
    found: Vec<SlowOperation>,
}

impl SlowOperations {
    /// Those that take at least so long; `None`: none.
    pub(super) fn new(from: Option<Duration>) -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        Self {
            from,
            thread: gettid().as_raw_nonzero().get().unsigned_abs(),
            moment: (Instant::now(), now_us),
            found: Vec::new(),
        }
    }

    /// An operation was done.
    pub(super) fn note(&mut self, due: Instant, taken: Instant, ended: Instant) {
        let latency = ended.saturating_duration_since(due);
        if self.from.is_some_and(|from| latency >= from) {
            self.found.push(SlowOperation {
                thread: self.thread,
                due_us: self.at_us(due),
                taken_us: self.at_us(taken),
                ended_us: self.at_us(ended),
            });
        }
    }

    pub(super) fn into_found(self) -> Vec<SlowOperation> {
        self.found
    }

    fn at_us(&self, at: Instant) -> u64 {
        let (moment, moment_us) = self.moment;
        match at.checked_duration_since(moment) {
            Some(after) => moment_us + after.as_micros() as u64,
            None => moment_us.saturating_sub(moment.duration_since(at).as_micros() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_ones_are_kept_with_their_times() {
        let mut slow = SlowOperations::new(Some(Duration::from_micros(100)));
        let due = slow.moment.0;
        let after = |us| due + Duration::from_micros(us);
        slow.note(due, after(10), after(99));
        slow.note(after(5), after(50), after(105));
        let moment_us = slow.moment.1;
        let found = slow.into_found();
        let [one] = found[..] else {
            panic!("{found:?}")
        };
        let times = [one.due_us, one.taken_us, one.ended_us].map(|us| us - moment_us);
        assert_eq!(times, [5, 50, 105]);
        let mut none = SlowOperations::new(None);
        none.note(due, due, after(1_000_000));
        assert_eq!(none.into_found(), []);
    }
}
