//! Where the runtime's time comes from, so that a test can hold it.

use std::time::Instant;

/// Seconds since the start of the runtime.
pub trait Clock: Send + Sync {
    /// Now, in seconds; never goes back.
    fn now_s(&self) -> f64;
}

/// The machine's monotonic clock, from 0 when it was made.
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
