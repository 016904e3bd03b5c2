//! A clock that stops while the server does not run.
//!
//! When the host takes the cores away for half a second, or a signal stops the process, everything
//! that is under way is late afterwards, although the server is fast enough. On this clock it is
//! not: a thread ticks every [`TICK_EVERY`], and a tick adds at most [`TICK_MAX`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const TICK_EVERY: Duration = Duration::from_millis(10);
/// The most that a tick adds. Twice the time between two: a thread that sleeps is often woken late
/// on a busy machine, and the clock must not stop in an overload.
pub(super) const TICK_MAX: Duration = Duration::from_millis(20);

/// Times are `Instant`s that fall behind the real ones by as long as the clock has stood still.
#[derive(Debug)]
pub(super) struct RunningClock {
    epoch: Instant,
    /// How long the clock has stood still, in nanoseconds.
    stood_ns: AtomicU64,
    /// The time that the clock does not pass before the next tick, in nanoseconds since `epoch`.
    ///
    /// A reader may see this value and `stood_ns` from different ticks. It is then at most
    /// `TICK_MAX` ahead: of the two, this one bounds the result.
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

    /// Returns the clock's time at the real time `real`.
    pub(super) fn at(&self, real: Instant) -> Instant {
        self.epoch + Duration::from_nanos(self.running_ns(real))
    }

    fn running_ns(&self, real: Instant) -> u64 {
        let real_ns = nanoseconds(real.saturating_duration_since(self.epoch));
        let running_ns = real_ns.saturating_sub(self.stood_ns.load(Ordering::Relaxed));
        running_ns.min(self.limit_ns.load(Ordering::Relaxed))
    }

    /// Lets the clock go on from `real`, the real time. Only one thread may call this.
    pub(super) fn tick(&self, real: Instant) {
        let real_ns = nanoseconds(real.saturating_duration_since(self.epoch));
        let running_ns = self.running_ns(real);
        (self.stood_ns).store(real_ns.saturating_sub(running_ns), Ordering::Relaxed);
        (self.limit_ns).store(running_ns + nanoseconds(TICK_MAX), Ordering::Relaxed);
    }
}

/// A `u64` of nanoseconds lasts for five centuries.
fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_clock_runs_between_ticks_and_stops_when_none_comes() {
        let epoch = Instant::now(); // clock: the base of made-up times
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
        // The machine stops for a second. Nothing is later than the limit, before and after the tick.
        assert_eq!(at(1050), 70 * MS);
        clock.tick(epoch + 1050 * MS);
        assert_eq!(at(1050), 70 * MS);
        assert_eq!(at(1055), 75 * MS);
        clock.tick(epoch + 1060 * MS);
        assert_eq!(at(1061), 81 * MS);
    }

    #[test]
    fn ticks_that_come_late_on_a_busy_machine_lose_nothing() {
        let epoch = Instant::now(); // clock: the base of made-up times
        let clock = RunningClock::new(epoch);
        let mut real = epoch;
        for late_ms in [0, 3, 9, 10, 1, 7] {
            real += TICK_EVERY + late_ms * MS;
            clock.tick(real);
            assert_eq!(clock.at(real), real);
        }
    }
}
