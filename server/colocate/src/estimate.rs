//! The estimate of the load, from measurements.
//!
//! The estimates are exponentially weighted means over time, not over measurements: a short cycle
//! has less weight than a whole one. With time constant T, a measurement over d seconds weighs 1 -
//! exp(-d / T).

use ebb_scheduler::availability::Availability;

use crate::monitor::MeasuredLoad;

/// The time constant of the moving averages of CPU and disk use by transactional threads, in
/// seconds: short enough to follow a day of load that is replayed within minutes, long enough not
/// to follow a single flush.
const TRANSACTIONAL_S: f64 = 0.35;
/// The time constant of the moving averages of CPU use by other processes and by analytics, in
/// seconds: longer, because other processes are measured only in ticks of the kernel.
const OTHERS_S: f64 = 2.0;
/// The time constant of the moving average of the capacity that analytics got, in seconds. Without
/// a forecast, policies plan with this average. Longer than a short peak of the load, and shorter
/// than a day, over which the load rises and falls.
const LEFT_S: f64 = 600.0;
/// The CPU use of other processes, in cores, below which it is taken as 0. Less may be the rounding
/// of ticks, or the machine's own background work.
const OTHERS_CORES_MIN: f64 = 0.05;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoadEstimate {
    transactional_cores: Option<f64>,
    /// The disk throughput of the load; 0 before the first measurement.
    disk_bytes_per_s: f64,
    /// The cores that other processes use. Rounding of ticks may make the value negative. The
    /// getter returns 0 for values below [`OTHERS_CORES_MIN`].
    others_cores: f64,
    analytics_cores: f64,
}

impl LoadEstimate {
    /// Adds the measurement of one control cycle to the moving averages.
    pub(super) fn take(&mut self, load: &MeasuredLoad) {
        let weight = |constant_s: f64| 1.0 - (-load.length_s / constant_s).exp();
        let newest = load.transactional_cores;
        let before = self.transactional_cores.unwrap_or(newest);
        self.transactional_cores = Some(before + weight(TRANSACTIONAL_S) * (newest - before));
        self.disk_bytes_per_s +=
            weight(TRANSACTIONAL_S) * (load.transactional_disk_bytes_per_s - self.disk_bytes_per_s);
        self.others_cores += weight(OTHERS_S) * (load.others_cores - self.others_cores);
        self.analytics_cores += weight(OTHERS_S) * (load.analytics_cores - self.analytics_cores);
    }

    /// Returns the bytes per second that the load reads from the disk and writes to it.
    pub(super) fn disk_bytes_per_s(&self) -> f64 {
        self.disk_bytes_per_s
    }

    /// Returns the cores that other processes use.
    pub(super) fn others_cores(&self) -> f64 {
        match self.others_cores {
            cores if cores >= OTHERS_CORES_MIN => cores,
            _ => 0.0,
        }
    }

    /// Returns the cores that analytics use, averaged over the same time as those of other
    /// processes.
    pub(super) fn analytics_cores(&self) -> f64 {
        self.analytics_cores
    }

    /// Returns the cores that the load uses.
    pub(super) fn transactional_cores(&self) -> f64 {
        self.transactional_cores.unwrap_or(0.0)
    }

    /// Returns the cores that the load and other processes use, which are not available to
    /// analytics.
    pub(super) fn load_cores(&self) -> f64 {
        self.transactional_cores() + self.others_cores()
    }
}

/// The mean capacity that analytics got recently, for plans without a forecast.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftEstimate {
    first_s: Option<f64>,
    last_s: f64,
    hundredths: f64,
}

impl LeftEstimate {
    /// Adds the capacity that analytics get from `now_s` on, in hundredths of a core; times ascend.
    /// The estimate is the plain mean at first, and an exponentially weighted one after [`LEFT_S`].
    pub(super) fn take(&mut self, now_s: f64, hundredths: u32) {
        let first_s = *self.first_s.get_or_insert(now_s);
        let length_s = (now_s - self.last_s).max(0.0);
        let elapsed_s = now_s - first_s;
        let weight = if elapsed_s > 0.0 {
            (1.0 - (-length_s / LEFT_S).exp()).max(length_s / elapsed_s)
        } else {
            1.0
        };
        self.last_s = now_s;
        self.hundredths += weight.min(1.0) * (f64::from(hundredths) - self.hundredths);
    }

    /// Returns a constant forecast: at all times, the capacity of analytics is the mean that they got
    /// recently.
    pub(super) fn availability(&self) -> Availability {
        Availability::constant(self.hundredths.max(0.0)).expect("a mean of finite numbers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(length_s: f64, transactional_cores: f64, others_cores: f64) -> MeasuredLoad {
        MeasuredLoad {
            length_s,
            transactional_cores,
            transactional_disk_bytes_per_s: transactional_cores * 1e6,
            others_cores,
            ..MeasuredLoad::default()
        }
    }

    #[test]
    fn the_first_measurement_counts_whole_and_short_ones_little() {
        let mut estimate = LoadEstimate::default();
        estimate.take(&used(0.25, 0.8, 0.0));
        assert_eq!(estimate.load_cores(), 0.8);
        estimate.take(&used(0.001, 2.0, 0.0));
        assert!(estimate.load_cores() < 0.81, "{estimate:?}");
    }

    #[test]
    fn the_remaining_capacity_is_a_mean_that_forgets() {
        let mut left = LeftEstimate::default();
        let at = |left: &LeftEstimate| left.availability().at(0.0).round();
        left.take(1.0, 200);
        assert_eq!(at(&left), 200.0);
        for second in 2..=101 {
            left.take(f64::from(second), if second % 2 == 0 { 50 } else { 150 });
        }
        assert!((95.0..=105.0).contains(&at(&left)), "{left:?}");
        for second in 102..=3700 {
            left.take(f64::from(second), 30);
        }
        assert_eq!(at(&left), 30.0);
    }

    #[test]
    fn it_does_not_matter_how_time_is_cut() {
        let mut whole = LoadEstimate::default();
        let mut cut = LoadEstimate::default();
        for estimate in [&mut whole, &mut cut] {
            estimate.take(&used(0.25, 0.4, 0.2));
        }
        whole.take(&used(0.25, 1.2, 1.0));
        for length_s in [0.05, 0.02, 0.08, 0.1] {
            cut.take(&used(length_s, 1.2, 1.0));
        }
        assert!((whole.load_cores() - cut.load_cores()).abs() < 1e-12);
    }

    #[test]
    fn a_step_is_followed_within_a_second_and_a_flush_hardly_shows() {
        let mut estimate = LoadEstimate::default();
        // Cycles of 0.25 s beside a load of 20% of two cores; one cycle contains a flush.
        for cores in [0.41, 0.39, 0.40, 0.95, 0.40, 0.42] {
            estimate.take(&used(0.25, cores, 0.01));
        }
        assert!(estimate.load_cores() < 0.55, "{estimate:?}");
        for _ in 0..4 {
            estimate.take(&used(0.25, 1.60, 0.01));
        }
        assert!((1.5..=1.6).contains(&estimate.load_cores()), "{estimate:?}");
        let disk_bytes_per_s = estimate.disk_bytes_per_s();
        assert!((1.4e6..=1.6e6).contains(&disk_bytes_per_s), "{estimate:?}");
    }

    #[test]
    fn other_processes_count_once_they_are_more_than_rounding() {
        let mut estimate = LoadEstimate::default();
        // Ticks, rounded up and down.
        for others in [0.04, -0.05, 0.06, -0.03, 0.05, -0.04, 0.03] {
            estimate.take(&used(0.25, 0.5, others));
            assert_eq!(estimate.load_cores(), 0.5);
        }
        for _ in 0..20 {
            estimate.take(&used(0.25, 0.5, 1.0));
        }
        assert!(
            (1.35..=1.5).contains(&estimate.load_cores()),
            "{estimate:?}"
        );
    }
}
