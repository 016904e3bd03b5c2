//! The capacity of analytics: now, and by forecast.

use crate::availability::Availability;
use std::sync::Arc;

/// The source of the capacity that the transactional load leaves to analytics.
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
    /// Returns the capacity of analytics in the control cycle that starts now.
    ///
    /// Called on the control thread, once per control cycle and outside any lock. It should return
    /// within a small part of a cycle. If it panics, the jobs and leases submitted before the panic
    /// fail, with the panic as the cause. Exceptions are jobs whose output is being committed, and
    /// jobs that are stopping already.
    fn capacity(&self, request: CapacityRequest) -> Capacity;
}

/// The state of the runtime that a capacity source may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityRequest {
    /// Start of the cycle, in seconds of the runtime's time.
    pub now_s: f64,
    /// Bytes in the buffers of tasks. The memory that the machine reports as used includes them.
    pub held_bytes: u64,
    /// CPU that jobs need from now on to meet their goals, in hundredths of a core. Jobs whose
    /// goals have passed are left out.
    pub needed_hundredths: u32,
}

/// Limits of one control cycle, for all jobs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The CPU that all jobs together may use, in hundredths of a core.
    pub cpu_hundredths: u32,
    /// True if other processes keep the cores busy, so that threads in the idle scheduling class
    /// would get too little of `cpu_hundredths`. Tasks then run on the *floor*: in the ordinary
    /// class, with a nice value of at least [`FLOOR_NICE`](ebb_threads::FLOOR_NICE). Attempts that are in the
    /// idle class are moved if the system lets a thread leave that class. Otherwise second attempts
    /// overtake them. Has no effect if tasks do not run in the idle class at all.
    pub is_on_floor: bool,
    /// The limit for reads, in bytes per second; `None` for no limit.
    pub read_bytes_per_s: Option<u64>,
    /// The limit for the memory of tasks, in bytes, if it is less than
    /// [`RuntimeOptions::memory_bytes`](super::RuntimeOptions::memory_bytes); `None` if it is not.
    /// When tasks have reserved more for a whole cycle, some are preempted until the others fit.
    pub memory_bytes: Option<u64>,
    /// The forecast f(t) of the capacity, in hundredths of a core over the runtime's time, which
    /// policies plan with.
    pub forecast: Arc<Availability>,
}

impl Capacity {
    /// Returns a capacity of `hundredths` of a core, now and in the forecast; reads and memory have
    /// no limit.
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

/// A source with the same capacity all the time.
#[derive(Clone, Debug)]
pub struct FixedCapacity(Capacity);

impl FixedCapacity {
    /// Returns a capacity of `hundredths` of a core, now and in the forecast.
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
