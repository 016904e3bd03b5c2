//! A clock that stops while the server does not run.
//!
//! When the host takes the cores away for half a second, or a signal stops the process, everything
//! in progress is late afterwards, although the server is fast enough. On this clock it is not: a
//! thread ticks every [`TICK_EVERY`], and a tick advances the clock by at most [`TICK_MAX`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const TICK_EVERY: Duration = Duration::from_millis(10);
/// The most time by which a tick advances the clock: twice the interval of ticks. On a busy machine
/// a sleeping thread is often woken late, and the clock must not stop in an overload.
pub(super) const TICK_MAX: Duration = Duration::from_millis(20);

/// A clock that is behind real time by the total time for which it has stood still. Its times are
/// `Instant`s.
#[derive(Debug)]
pub(super) struct RunningClock {
    epoch: Instant,
    /// The nanoseconds for which the clock has stood still.
    stood_ns: AtomicU64,
    /// The time, in nanoseconds since `epoch`, at which the clock stops until the next tick.
    ///
    /// A reader may see this value and `stood_ns` from different ticks. Then this bound keeps the
    /// time that the reader computes from being more than `TICK_MAX` ahead.
    limit_ns: AtomicU64,
}

impl RunningClock {
    pub(super) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            stood_ns: AtomicU64::new(0),
            limit_ns: AtomicU64::new(nanoseconds(TICK_MAX)),
        }
    }

    #[cfg(test)]
    pub(super) fn epoch(&self) -> Instant {
        self.epoch
    }

    pub(super) fn now(&self) -> Instant {
        self.at(Instant::now())
    }

    /// Returns the time on this clock at the real time `real`. The clock stops while the server
    /// does not run.
    pub(super) fn at(&self, real: Instant) -> Instant {
        self.epoch + Duration::from_nanos(self.running_ns(real))
    }

    fn running_ns(&self, real: Instant) -> u64 {
        let real_ns = nanoseconds(real.saturating_duration_since(self.epoch));
        let running_ns = real_ns.saturating_sub(self.stood_ns.load(Ordering::Relaxed));
        running_ns.min(self.limit_ns.load(Ordering::Relaxed))
    }

    /// Lets the clock advance by up to [`TICK_MAX`] more. `real` is the present real time. Only one
    /// thread may call this.
    pub(super) fn tick(&self, real: Instant) {
        let real_ns = nanoseconds(real.saturating_duration_since(self.epoch));
        let running_ns = self.running_ns(real);
        (self.stood_ns).store(real_ns.saturating_sub(running_ns), Ordering::Relaxed);
        (self.limit_ns).store(running_ns + nanoseconds(TICK_MAX), Ordering::Relaxed);
    }
}

/// Returns a duration in nanoseconds. A `u64` is enough for five centuries.
fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_clock_runs_between_ticks_and_stops_when_none_comes() {
        let epoch = Instant::now(); // clock: the base of a test's times
        let clock = RunningClock::new(epoch);
        let at = |real_ms: u32| clock.at(epoch + real_ms * MS) - epoch;
        for tick in 1..=5 {
            clock.tick(epoch + tick * TICK_EVERY);
            assert_eq!(
                at(10 * tick + 3),
                (10 * tick + 3) * MS,
                "no pause, no difference"
            );
        }
        // The machine pauses for a second. The clock stays at the limit, before and after the tick.
        assert_eq!(at(1050), 70 * MS);
        clock.tick(epoch + 1050 * MS);
        assert_eq!(at(1050), 70 * MS);
        assert_eq!(at(1055), 75 * MS);
        clock.tick(epoch + 1060 * MS);
        assert_eq!(at(1061), 81 * MS);
    }

    #[test]
    fn late_ticks_on_a_busy_machine_lose_no_time() {
        let epoch = Instant::now(); // clock: the base of a test's times
        let clock = RunningClock::new(epoch);
        let mut real = epoch;
        for late_ms in [0, 3, 9, 10, 1, 7] {
            real += TICK_EVERY + late_ms * MS;
            clock.tick(real);
            assert_eq!(clock.at(real), real);
        }
    }
}
