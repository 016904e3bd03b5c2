//! The resources that load and analytics share, and the part of them that analytics get.

use std::sync::Arc;

use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::RuntimeError;

use crate::floor::FLOOR_CORES_MIN;

/// The default fraction of the machine that analytics never get: for timers, the kernel, and errors of the
/// forecast.
pub const RESERVE: f64 = 0.05;

/// The resources that load and analytics share.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The number of cores on which analytics can run at once. If it is less than the number that
    /// the process could use at the start, it also bounds the load and analytics together.
    pub cores: u32,
    /// The cores that analytics never get, if the load and analytics may use `cores` cores
    /// together. If they may use more or fewer, because of the CPU limit (`cpu.max`) of a cgroup,
    /// the reserve grows or shrinks in proportion.
    pub reserve_cores: f64,
    /// The guaranteed minimum of analytics, in hundredths of a core. Analytics get it even if the
    /// load uses all cores, or the latency guard allows less. There are two exceptions: pauses that
    /// measure the load alone, and the floor (see `floor_cores`).
    pub least_hundredths: u32,
    /// The floor: cores that analytics get while other processes hold the CPU; 0 for none. The load
    /// and the guard of its latencies have priority. Meanwhile the floor replaces
    /// `least_hundredths`, and threads of analytics run in the ordinary scheduling class, not in
    /// the idle class.
    pub floor_cores: f64,
    /// The throughput of the disk that load and analytics share, in bytes per second; `None`: analytics
    /// read without a limit.
    pub disk_bytes_per_s: Option<u64>,
    /// The forecast f(t) by which policies plan: the capacity for analytics over time, in hundredths of a
    /// core, with the reserve deducted. `None`: a moving average, over about ten minutes, of the capacity
    /// that analytics got.
    pub forecast: Option<Arc<Availability>>,
}

impl Machine {
    /// Checks [`reserve_cores`](Self::reserve_cores) and [`floor_cores`](Self::floor_cores).
    ///
    /// # Errors
    /// If the reserve or the floor is not a number of cores that the machine has.
    pub(crate) fn check(&self) -> Result<(), RuntimeError> {
        let cores = f64::from(self.cores);
        let bad = |option, range, value| {
            Err(RuntimeError::Option {
                option,
                range,
                value,
            })
        };
        if !(0.0..=cores).contains(&self.reserve_cores) {
            let range = "0 to the cores of the machine";
            return bad("reserve_cores", range, self.reserve_cores);
        }
        if self.floor_cores != 0.0 && !(FLOOR_CORES_MIN..=cores).contains(&self.floor_cores) {
            let range = "0, or 0.01 to the cores of the machine";
            return bad("floor_cores", range, self.floor_cores);
        }
        Ok(())
    }

    /// Returns the reserve, the number of cores that analytics never get, if the load and analytics
    /// may use `own_cores` cores together. The reserve is proportional to `own_cores`: see
    /// [`reserve_cores`](Self::reserve_cores).
    pub(crate) fn reserve_of(&self, own_cores: f64) -> f64 {
        self.reserve_cores * (own_cores / f64::from(self.cores.max(1)))
    }

    /// Returns the capacity of analytics in hundredths of a core: the fraction `allowed` of the
    /// cores that are left, but at least the guaranteed minimum. Of `left_cores`, only as many
    /// count as analytics can run on at once, [`cores`](Self::cores).
    pub(crate) fn capacity_hundredths(&self, left_cores: f64, allowed: f64) -> u32 {
        let usable_cores = left_cores.clamp(0.0, f64::from(self.cores));
        ((usable_cores * allowed * 100.0) as u32).max(self.least_hundredths)
    }

    /// Returns the disk throughput that analytics may use, in bytes per second: the fraction `allowed` of
    /// the throughput that the load leaves if it uses `load_bytes_per_s`. `None` for no limit.
    pub(crate) fn read_bytes_per_s(&self, load_bytes_per_s: f64, allowed: f64) -> Option<u64> {
        let left = self.disk_bytes_per_s? as f64 - load_bytes_per_s;
        Some((left.max(0.0) * allowed) as u64)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a machine of two cores with the default reserve.
    pub(crate) fn machine(disk_bytes_per_s: Option<u64>) -> Machine {
        Machine {
            cores: 2,
            reserve_cores: 2.0 * RESERVE,
            disk_bytes_per_s,
            ..Machine::default()
        }
    }

    #[test]
    fn analytics_get_the_allowed_part_of_what_is_left_on_their_cores() {
        for (left, allowed, least_hundredths, capacity) in [
            (1.9, 1.0, 0, 190),
            (1.5, 0.5, 0, 75),
            (1.5, 0.0, 0, 0),
            (-1.1, 1.0, 0, 0),
            (-1.1, 1.0, 10, 10),
            (7.6, 1.0, 0, 200),
            (7.6, 0.5, 0, 100),
        ] {
            let machine = Machine {
                least_hundredths,
                ..machine(None)
            };
            assert_eq!(
                machine.capacity_hundredths(left, allowed),
                capacity,
                "{allowed} of {left} cores allowed"
            );
        }
    }

    #[test]
    fn the_floor_is_a_number_of_cores_that_the_machine_has() {
        for (floor_cores, is_good) in [
            (0.0, true),
            (0.01, true),
            (2.0, true),
            (2.1, false),
            (0.004, false),
            (-0.1, false),
            (f64::NAN, false),
        ] {
            let machine = Machine {
                floor_cores,
                ..machine(None)
            };
            assert_eq!(machine.check().is_ok(), is_good, "{floor_cores}");
        }
    }

    #[test]
    fn analytics_get_the_disk_throughput_that_the_load_leaves() {
        let machine = machine(Some(1000));
        for (load, allowed, left) in [
            (0.0, 1.0, 1000),
            (400.0, 1.0, 600),
            (400.0, 0.5, 300),
            (2000.0, 1.0, 0),
        ] {
            assert_eq!(machine.read_bytes_per_s(load, allowed), Some(left));
        }
    }
}
