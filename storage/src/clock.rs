//! Wall-clock time of stored data: the creation and the expiry of snapshots, and the expiry
//! of entries.
//!
//! Time enters through [`Clock`], so that a test can hold it, and through
//! [`MonotonicClock`] it never goes back while a database is open: of two views
//! the later one never sees an entry come back to life.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of wall-clock time.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Returns the time in microseconds since the Unix epoch, as precisely as this clock shows it.
    fn now_us(&self) -> u64 {
        self.now_ms().saturating_mul(1000)
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
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Returns a clock that shows this time.
    pub fn at_ms(now_ms: u64) -> Self {
        Self(Arc::new(AtomicU64::new(now_ms)))
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, by_ms: u64) {
        self.0.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Sets the clock to this time, which may be an earlier one.
    pub fn set_ms(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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
}
