//! The number of cores that other processes leave free, measured before a job starts.

use std::io;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use ebb_colocate::LoadMonitor;

/// The time over which the use of other processes is measured. The kernel counts in ticks of 10
/// ms.
const MEASURE_FOR: Duration = Duration::from_millis(200);

/// The cores that other processes leave on this machine.
pub struct FreeCores(Others);

enum Others {
    Known {
        cores: f64,
    },
    Measured {
        by: io::Result<LoadMonitor>,
        began: Instant,
    },
}

impl FreeCores {
    /// Creates the free cores beside a measured use of `others_cores` cores, for callers that
    /// measure all the time.
    pub fn beside(others_cores: f64) -> Self {
        Self(Others::Known {
            cores: others_cores,
        })
    }

    /// Starts to measure the use of other processes.
    pub fn start() -> Self {
        Self(Others::Measured {
            by: LoadMonitor::start(),
            began: Instant::now(),
        })
    }

    /// Returns how many of `cores` cores other processes leave on a machine of `machine_cores`;
    /// all of them where the system does not show what processes use. After
    /// [`start`](Self::start) it first waits until a fifth of a second was measured.
    pub fn of(self, cores: u32, machine_cores: u32) -> f64 {
        let others_cores = match self.0 {
            Others::Known { cores } => cores,
            Others::Measured { by, began } => {
                while let Some(left) = MEASURE_FOR.checked_sub(began.elapsed()) {
                    park_timeout(left);
                }
                let used = by.and_then(|mut monitor| monitor.sample());
                used.map_or(0.0, |used| used.others_cores)
            }
        };
        (f64::from(machine_cores) - others_cores.max(0.0)).clamp(0.0, f64::from(cores))
    }
}
