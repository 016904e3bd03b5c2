//! How much analytics may use: now, and by forecast.

use crate::availability::Availability;
use std::sync::Arc;

/// The other side of co-location: it knows the transactional load.
///
/// ```
/// use ebb_scheduler::availability::Availability;
/// use ebb_scheduler::runtime::{Capacity, CapacityRequest, CapacitySource};
/// use std::sync::Arc;
///
/// /// One core by day, four by night; a day has 86,400 seconds.
/// struct Nightly;
///
/// impl CapacitySource for Nightly {
///     fn capacity(&self, request: CapacityRequest) -> Capacity {
///         let night = request.now_s.rem_euclid(86_400.0) > 72_000.0;
///         Capacity::cpu(if night { 400 } else { 100 })
///     }
/// }
/// ```
pub trait CapacitySource: Send + Sync {
    /// What analytics may use in the control cycle that starts now.
    ///
    /// Called on the control thread, once per control cycle and outside any lock. It
    /// should answer within a small part of a cycle. When it panics, the jobs of that
    /// moment fail with the cause.
    fn capacity(&self, request: CapacityRequest) -> Capacity;
}

/// What the runtime knows when it asks for capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityRequest {
    /// Start of the cycle, in seconds of the runtime's time.
    pub now_s: f64,
    /// Bytes in the buffers of tasks: a part of what the machine says is used.
    pub held_bytes: u64,
    /// CPU that jobs need from now on to meet their goals, in hundredths of a core. Goals that have
    /// passed do not count.
    pub needed_hundredths: u32,
}

/// What all jobs together may use in one control cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// CPU, in hundredths of a core.
    pub cpu_hundredths: u32,
    /// Other processes hold the CPU, and tasks get `cpu_hundredths` outside of the idle class alone:
    /// they run on the *floor*, with the nice value [`FLOOR_NICE`](ebb_threads::FLOOR_NICE). Attempts
    /// that are in the idle class are overtaken by second ones, or moved where the system lets a
    /// thread leave that class. Nothing of this holds if tasks do not run in the idle class at all.
    pub is_on_floor: bool,
    /// What may be read, in bytes per second; `None`: as much as they can.
    pub read_bytes_per_s: Option<u64>,
    /// What may be held, in bytes, if that is less than
    /// [`RuntimeOptions::memory_bytes`](super::RuntimeOptions::memory_bytes); `None`:
    /// it is not. When tasks have reserved more for a whole cycle, some are preempted
    /// until what is left fits.
    pub memory_bytes: Option<u64>,
    /// f(t), in hundredths of a core over the runtime's time: what policies plan by.
    pub forecast: Arc<Availability>,
}

impl Capacity {
    /// `hundredths` of a core, by forecast for ever; reads and memory without a limit.
    #[must_use]
    pub fn cpu(hundredths: u32) -> Self {
        let forecast = Availability::constant(f64::from(hundredths));
        Self {
            cpu_hundredths: hundredths,
            is_on_floor: false,
            read_bytes_per_s: None,
            memory_bytes: None,
            forecast: Arc::new(forecast.expect("a u32 is finite and not negative")),
        }
    }
}

/// The same capacity all the time.
#[derive(Clone, Debug)]
pub struct FixedCapacity(Capacity);

impl FixedCapacity {
    /// `hundredths` of a core, now and for ever.
    #[must_use]
    pub fn new(hundredths: u32) -> Self {
        Self(Capacity::cpu(hundredths))
    }
}

impl CapacitySource for FixedCapacity {
    fn capacity(&self, _request: CapacityRequest) -> Capacity {
        self.0.clone()
    }
}
