//! The runtime's time. Tests replace it with a clock that they advance themselves.

use std::time::Instant;

/// A source of the time, in seconds since the start of the runtime.
pub trait Clock: Send + Sync {
    /// Returns the present time in seconds; never decreases.
    fn now_s(&self) -> f64;
}

/// The machine's monotonic clock, from 0 at its creation.
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
