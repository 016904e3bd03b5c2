//! The pace of a backup or a verification: a bound on its bytes per second.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

/// The longest sleep, in seconds. A wait can be ended between two sleeps.
const SLEEP_S_MAX: f64 = 0.1;
/// The shortest sleep, in seconds. Shorter waits are not slept at once but add up, because each
/// sleep takes about 0.1 ms longer than requested.
const WAIT_S_MIN: f64 = 0.01;

/// The waits by which a piece of work keeps to a rate. The work begins when this is created.
#[derive(Debug)]
pub struct Pace {
    begun: Instant,
    schedule: Schedule,
}

impl Pace {
    /// Creates the pace of work that does at most `bytes_per_s`.
    pub fn new(bytes_per_s: NonZeroU64) -> Self {
        Self {
            begun: Instant::now(),
            schedule: Schedule::new(bytes_per_s),
        }
    }

    /// Waits as long as the work is ahead of its rate. `bytes_done` is the number of bytes since the work
    /// began. Calls `goes_on` before each sleep, and ends the wait early once `goes_on` returns false.
    pub fn wait(&mut self, bytes_done: u64, mut goes_on: impl FnMut() -> bool) {
        let now_s = self.begun.elapsed().as_secs_f64();
        let mut wait_s = self.schedule.wait_s(bytes_done, now_s);
        while wait_s > 0.0 && goes_on() {
            let sleep_s = wait_s.min(SLEEP_S_MAX);
            thread::sleep(Duration::from_secs_f64(sleep_s));
            wait_s -= sleep_s;
        }
    }
}

/// The computation of the waits by which work keeps to a rate. Work that was slower than the rate
/// earns no credit, or later work would run at full speed.
#[derive(Debug)]
struct Schedule {
    bytes_per_s: f64,
    bytes_done: u64,
    /// The earliest time at which the bytes so far do not exceed the rate, in seconds since the begin of the
    /// work.
    due_s: f64,
    /// The time of the last call of `wait_s`, in seconds since the begin of the work.
    seen_s: f64,
}

impl Schedule {
    fn new(bytes_per_s: NonZeroU64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.get() as f64,
            bytes_done: 0,
            due_s: 0.0,
            seen_s: 0.0,
        }
    }

    /// Returns how long to wait at the time `now_s`, in seconds, after `bytes_done` bytes in all. Returns 0
    /// for less than [`WAIT_S_MIN`].
    fn wait_s(&mut self, bytes_done: u64, now_s: f64) -> f64 {
        let bytes = bytes_done.saturating_sub(self.bytes_done);
        // The bytes were begun when those before them were due or, if later, at the last look.
        let begun_s = self.due_s.max(self.seen_s);
        self.due_s = begun_s + bytes as f64 / self.bytes_per_s;
        self.bytes_done = self.bytes_done.max(bytes_done);
        self.seen_s = now_s;
        let wait_s = self.due_s - now_s;
        if wait_s < WAIT_S_MIN { 0.0 } else { wait_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        Schedule::new(NonZeroU64::new(1000).unwrap())
    }

    #[test]
    fn bytes_beyond_the_rate_are_waited_for() {
        let mut schedule = schedule();
        assert_eq!(schedule.wait_s(500, 0.25), 0.25);
        assert_eq!(schedule.wait_s(1500, 0.5), 1.0);
        // No new bytes.
        assert_eq!(schedule.wait_s(1500, 1.5), 0.0);
    }

    #[test]
    fn time_that_nothing_was_done_in_gives_no_credit() {
        let mut schedule = schedule();
        assert_eq!(schedule.wait_s(500, 3600.0), 0.0);
        assert_eq!(schedule.wait_s(1000, 3600.25), 0.25);
    }

    #[test]
    fn short_waits_are_put_together() {
        let mut schedule = schedule();
        assert_eq!(schedule.wait_s(8, 0.0), 0.0);
        assert_eq!(schedule.wait_s(16, 0.0), 0.016);
    }

    #[test]
    fn a_wait_ends_when_the_work_is_to_end() {
        let mut pace = Pace::new(NonZeroU64::MIN);
        pace.wait(u64::MAX, || false);
    }
}
