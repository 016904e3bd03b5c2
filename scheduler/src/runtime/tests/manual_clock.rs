//! A clock that stands still until a test advances it.

use crate::runtime::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(in crate::runtime) struct ManualClock {
    now_bits: AtomicU64,
}

impl ManualClock {
    /// Advances the clock by `by_s` seconds; a negative number does not move it.
    pub fn advance_s(&self, by_s: f64) {
        // Tests advance it from one thread, so no update is lost.
        self.now_bits
            .store((self.now_s() + by_s.max(0.0)).to_bits(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_s(&self) -> f64 {
        f64::from_bits(self.now_bits.load(Ordering::SeqCst))
    }
}
