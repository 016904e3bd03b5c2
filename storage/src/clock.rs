//! Wall-clock time of stored data (the creation and the expiry of snapshots, and the expiry
//! of entries), and the time that has passed, for retries.
//!
//! Time enters through [`Clock`], so that a test can hold it, and through
//! [`MonotonicClock`] it never goes back while a database is open: of two views
//! the later one never sees an entry come back to life. So it stands still after the clock was set
//! back, and no wait is measured by it. The checks of files record the time of the [`Clock`] itself,
//! because their times must outlast the process, and must not lie in the future.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of wall-clock time, and of the time that has passed.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Returns the time in microseconds since the Unix epoch, as precisely as this clock shows it.
    fn now_us(&self) -> u64 {
        self.now_ms().saturating_mul(1000)
    }

    /// Returns the time since a fixed moment, in milliseconds. Setting the wall clock must not
    /// change this time. Default: the monotonic clock of the machine.
    fn elapsed_ms(&self) -> u64 {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed().as_millis() as u64
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }

    fn now_us(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64)
    }
}

/// A clock that shows the same time until it is changed, for tests and simulations. Clones share
/// the time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<ManualTime>);

#[derive(Debug, Default)]
struct ManualTime {
    now_ms: AtomicU64,
    elapsed_ms: AtomicU64,
}

impl ManualClock {
    /// Returns a clock that shows this time.
    pub fn at_ms(now_ms: u64) -> Self {
        let clock = Self::default();
        clock.set_ms(now_ms);
        clock
    }

    /// Lets time pass: moves the clock forward, and [`Clock::elapsed_ms`] with it.
    pub fn advance_ms(&self, by_ms: u64) {
        self.0.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        self.0.elapsed_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Sets the clock to this time, which may be an earlier one. [`Clock::elapsed_ms`] stays as it
    /// is, because no time passes.
    pub fn set_ms(&self, now_ms: u64) {
        self.0.now_ms.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Ordering::Relaxed)
    }

    fn elapsed_ms(&self) -> u64 {
        self.0.elapsed_ms.load(Ordering::Relaxed)
    }
}

/// A clock that never goes back, even if the clock behind it is set back.
#[derive(Debug)]
pub(crate) struct MonotonicClock {
    source: Arc<dyn Clock>,
    latest_ms: AtomicU64,
}

impl MonotonicClock {
    pub(crate) fn new(source: Arc<dyn Clock>) -> Self {
        Self {
            source,
            latest_ms: AtomicU64::new(0),
        }
    }

    /// Returns the time in milliseconds since the Unix epoch, never an earlier one than before.
    pub(crate) fn now_ms(&self) -> u64 {
        let now = self.source.now_ms();
        self.latest_ms.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_follow_a_clock_that_is_set_back() {
        let source = ManualClock::default();
        let clock = MonotonicClock::new(Arc::new(source.clone()));
        for (shown, now) in [(5, 5), (9, 9), (3, 9), (10, 10)] {
            source.set_ms(shown);
            assert_eq!(clock.now_ms(), now);
        }
    }

    #[test]
    fn elapsed_time_goes_on_while_a_clock_is_set() {
        let clock = ManualClock::at_ms(5_000);
        clock.advance_ms(10);
        for now_ms in [1_000, 9_000] {
            clock.set_ms(now_ms);
            assert_eq!((clock.now_ms(), clock.elapsed_ms()), (now_ms, 10));
        }
        clock.advance_ms(7);
        assert_eq!((clock.now_ms(), clock.elapsed_ms()), (9_007, 17));
    }
}
