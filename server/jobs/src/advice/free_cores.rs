//! The number of cores that other processes leave free, measured before a job starts.

use std::io;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use ebb_colocate::LoadMonitor;

/// The time for which the CPU use of other processes is measured. The kernel counts CPU time in
/// ticks of 10 ms, so a much shorter measurement would be coarse.
const MEASURE_FOR: Duration = Duration::from_millis(200);

/// The smallest number of free cores that a prediction assumes if no cores are guaranteed to jobs. With 0,
/// the predicted time of a job would be infinite.
const FREE_CORES_MIN: f64 = 0.05;

/// The number of cores that other processes leave free on this machine, or the number of cores that
/// jobs are guaranteed (the floor) if that is more.
pub struct FreeCores {
    others: Others,
    /// The number of cores that jobs get even while other processes use all cores; 0 if nothing is
    /// guaranteed.
    floor_cores: f64,
    /// The limit on CPU of the process's cgroup, in cores; infinite if there is none.
    limit_cores: f64,
}

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
    fn new(others: Others) -> Self {
        Self {
            others,
            floor_cores: 0.0,
            limit_cores: f64::INFINITY,
        }
    }

    /// Creates the value from `others_cores`, the number of cores that other processes use. The
    /// caller has measured this number, so [`of`](Self::of) does not wait for a measurement.
    pub fn beside(others_cores: f64) -> Self {
        Self::new(Others::Known {
            cores: others_cores,
        })
    }

    /// Starts to measure the CPU use of other processes.
    pub fn start() -> Self {
        Self::new(Others::Measured {
            by: LoadMonitor::start(),
            began: Instant::now(),
        })
    }

    /// Sets the number of cores that jobs get even while other processes use all cores.
    #[must_use]
    pub fn with_floor(self, floor_cores: f64) -> Self {
        Self {
            floor_cores,
            ..self
        }
    }

    /// Sets the limit on CPU of the process's cgroup (`cpu.max`), in cores.
    #[must_use]
    pub fn with_limit(self, limit_cores: f64) -> Self {
        Self {
            limit_cores,
            ..self
        }
    }

    /// Returns the number of cores that are free for a job. The job may use `cores` of the
    /// `machine_cores` cores of the machine. The result is the number of cores that other processes
    /// leave free, or the limit of the cgroup if that is less. But it is at least the floor (0.05
    /// cores without a floor), and never more than `cores`. If the operating system does not report
    /// the CPU use of processes, assumes that other processes use none.
    ///
    /// After [`start`](Self::start), waits until the measurement has taken a fifth of a second.
    pub fn of(self, cores: u32, machine_cores: u32) -> f64 {
        let others_cores = match self.others {
            Others::Known { cores } => cores,
            Others::Measured { by, began } => {
                while let Some(left) = MEASURE_FOR.checked_sub(began.elapsed()) {
                    park_timeout(left);
                }
                let used = by.and_then(|mut monitor| monitor.sample());
                used.map_or(0.0, |used| used.others_cores)
            }
        };
        let left = (f64::from(machine_cores) - others_cores.max(0.0)).min(self.limit_cores);
        let least = if self.floor_cores > 0.0 {
            self.floor_cores
        } else {
            FREE_CORES_MIN
        };
        left.max(least).min(f64::from(cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_what_other_processes_leave_or_the_floor() {
        for (others_cores, floor_cores, cores, expected) in [
            (0.0, 0.15, 2, 2.0),
            (0.0, 0.15, 1, 1.0),
            (1.5, 0.15, 2, 0.5),
            (1.95, 0.15, 2, 0.15),
            (7.0, 0.15, 2, 0.15),
            (7.0, 0.01, 2, 0.01),
            (7.0, 0.0, 2, FREE_CORES_MIN),
            (7.0, 2.0, 1, 1.0),
        ] {
            let free = FreeCores::beside(others_cores).with_floor(floor_cores);
            assert_eq!(free.of(cores, 2), expected, "{others_cores} {floor_cores}");
        }
    }

    #[test]
    fn a_job_has_no_more_than_the_limit_of_the_cgroup() {
        let free = |limit_cores| FreeCores::beside(1.0).with_limit(limit_cores).of(8, 8);
        assert_eq!(free(2.5), 2.5);
        assert_eq!(free(7.5), 7.0, "other processes leave less");
        assert_eq!(free(0.0), FREE_CORES_MIN);
    }
}
