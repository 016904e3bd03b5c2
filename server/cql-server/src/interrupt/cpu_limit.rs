//! A limit on the CPU time of the thread that executes a statement.
//!
//! A limit on the duration would be no substitute: while a thread reads from the disk or waits for
//! a core, it uses none of the CPU time that other requests wait for.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct CpuLimit {
    /// The CPU time of the thread at which the limit is reached.
    reached_at: Duration,
    /// The time at which the CPU time is read next. The limit cannot be reached earlier, since a
    /// thread uses no more CPU time than time passes. Reading the CPU time is a system call,
    /// reading the clock is none.
    look_at: Instant,
}

impl CpuLimit {
    /// Creates a limit that is reached once the thread uses `cpu_max` more CPU time than the `cpu`
    /// that it has used at `now`.
    pub(super) fn new(cpu_max: Duration, now: Instant, cpu: Duration) -> Self {
        Self {
            reached_at: cpu + cpu_max,
            look_at: now + cpu_max,
        }
    }

    /// Returns whether the limit is reached at `now`. `cpu` returns the CPU time of the thread.
    pub(super) fn is_reached(&mut self, now: Instant, cpu: impl FnOnce() -> Duration) -> bool {
        if now < self.look_at {
            return false;
        }
        let left = self.reached_at.saturating_sub(cpu());
        self.look_at = now + left;
        left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_uses_nothing_of_its_limit() {
        let begun = Instant::now(); // clock: a limit has the instant at which it begins
        let ms = Duration::from_millis;
        let not_read = || -> Duration { panic!("it is too early to read the CPU time") };
        let mut limit = CpuLimit::new(ms(5), begun, ms(100));
        assert!(!limit.is_reached(begun + ms(4), not_read));
        // The thread has waited for the disk for almost a second.
        assert!(!limit.is_reached(begun + ms(1000), || ms(101)));
        assert!(!limit.is_reached(begun + ms(1003), not_read));
        assert!(!limit.is_reached(begun + ms(1004), || ms(104)));
        assert!(limit.is_reached(begun + ms(1005), || ms(105)));
        assert!(limit.is_reached(begun + ms(1006), || ms(106)));
    }
}
