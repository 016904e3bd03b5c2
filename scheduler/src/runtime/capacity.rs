//! How much analytics may use: now, and by forecast.

use crate::availability::Availability;
use std::sync::Arc;

/// The other side of co-location: it knows the transactional load.
///
/// Asked on the control thread once per control cycle, outside any lock; it
/// should answer within a small part of a cycle.
pub trait CapacitySource: Send + Sync {
    /// What analytics may use in the cycle that starts at `now_s`, in
    /// hundredths of a core.
    fn capacity_hundredths(&self, now_s: f64) -> u32;

    /// What all jobs together may read in that cycle, in bytes per second;
    /// `None`: as much as they can. Asked after the capacity.
    fn read_bytes_per_s(&self) -> Option<u64> {
        None
    }

    /// What all jobs together may hold in that cycle, in bytes, if that is less than
    /// [`RuntimeOptions::memory_bytes`](super::RuntimeOptions::memory_bytes); `None`:
    /// it is not. Of what the machine says is used, the buffers of tasks are
    /// `held_bytes`. Asked after the capacity. When tasks have reserved more for a
    /// whole cycle, some are preempted until what is left fits.
    fn memory_bytes(&self, held_bytes: u64) -> Option<u64> {
        let _ = held_bytes;
        None
    }

    /// f(t), in hundredths of a core over the runtime's time.
    fn forecast(&self) -> Arc<Availability>;
}

/// The same capacity all the time.
#[derive(Clone, Debug)]
pub struct FixedCapacity {
    hundredths: u32,
    forecast: Arc<Availability>,
}

impl FixedCapacity {
    /// `hundredths` of a core, now and for ever.
    #[must_use]
    pub fn new(hundredths: u32) -> Self {
        let forecast = Availability::constant(f64::from(hundredths));
        Self {
            hundredths,
            forecast: Arc::new(forecast.expect("a u32 is finite and not negative")),
        }
    }
}

impl CapacitySource for FixedCapacity {
    fn capacity_hundredths(&self, _now_s: f64) -> u32 {
        self.hundredths
    }

    fn forecast(&self) -> Arc<Availability> {
        Arc::clone(&self.forecast)
    }
}
