//! Where the runtime's time comes from, so that a test can hold it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seconds since the start of the runtime.
pub trait Clock: Send + Sync {
    /// Now, in seconds; never goes back.
    fn now_s(&self) -> f64;
}

/// The machine's monotonic clock, from 0 when it was made.
#[derive(Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for MonotonicClock {
    fn now_s(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }
}

/// A clock that stands still until a test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_bits: AtomicU64,
}

impl ManualClock {
    /// Moves on by `by_s` seconds, which must not be negative.
    pub fn advance_s(&self, by_s: f64) {
        // Tests advance from one thread; a lost update would only be their own.
        self.now_bits
            .store((self.now_s() + by_s.max(0.0)).to_bits(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_s(&self) -> f64 {
        f64::from_bits(self.now_bits.load(Ordering::SeqCst))
    }
}
