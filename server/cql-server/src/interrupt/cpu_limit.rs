//! A limit on the CPU time of the thread that executes a statement.
//!
//! Time would not do: a read of the disk, or a thread that waits for a core, uses none of the CPU that
//! others wait for.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct CpuLimit {
    /// The CPU time of the thread at which the limit is reached.
    reached_at: Duration,
    /// The time of the next look at the CPU time. Before it the limit cannot be reached, as one thread
    /// uses no more CPU than time passes. A look is a system call, unlike one at the time.
    look_at: Instant,
}

impl CpuLimit {
    /// Creates a limit of `cpu_max` from `now` on, when the thread has used `cpu`.
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
        let begun = Instant::now(); // clock: a limit takes the instant at which it begins
        let ms = Duration::from_millis;
        let not_read = || -> Duration { panic!("it is too early to read the CPU time") };
        let mut limit = CpuLimit::new(ms(5), begun, ms(100));
        assert!(!limit.is_reached(begun + ms(4), not_read));
        // It has waited for the disk for almost a second.
        assert!(!limit.is_reached(begun + ms(1000), || ms(101)));
        assert!(!limit.is_reached(begun + ms(1003), not_read));
        assert!(!limit.is_reached(begun + ms(1004), || ms(104)));
        assert!(limit.is_reached(begun + ms(1005), || ms(105)));
        assert!(limit.is_reached(begun + ms(1006), || ms(106)));
    }
}
