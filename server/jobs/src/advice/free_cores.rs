//! How many cores other processes leave, measured before a job starts.

use std::io;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use ebb_colocate::LoadMonitor;

/// Over so long it is measured what others use of the machine: the kernel counts in
/// ticks of 10 ms.
const MEASURE_FOR: Duration = Duration::from_millis(200);

/// Measures what other processes use.
pub struct FreeCores {
    monitor: io::Result<LoadMonitor>,
    began: Instant,
}

impl FreeCores {
    /// From now on.
    pub fn start() -> Self {
        Self {
            monitor: LoadMonitor::start(),
            began: Instant::now(),
        }
    }

    /// How many of `cores` cores others leave on a machine of `machine_cores`; all where
    /// the system does not say. Waits until it has been measured for a fifth of a second.
    pub fn of(self, cores: u32, machine_cores: u32) -> f64 {
        while let Some(left) = MEASURE_FOR.checked_sub(self.began.elapsed()) {
            park_timeout(left);
        }
        let used = self.monitor.and_then(|mut monitor| monitor.sample());
        let others_cores = used.map_or(0.0, |used| used.others_cores.max(0.0));
        (f64::from(machine_cores) - others_cores).clamp(0.0, f64::from(cores))
    }
}
