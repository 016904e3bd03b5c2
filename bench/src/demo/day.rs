//! The compressed day: the load over its hours, and the capacity that the load leaves.

use std::f64::consts::TAU;

use ebb_colocate::FLOOR_CORES;
use ebb_scheduler::availability::{Availability, AvailabilityError, Step};

/// The number of hours in a day. Times of a simulated day are given in such hours.
pub const HOURS: f64 = 24.0;
/// The hour at which the load peaks; the load is lowest twelve hours earlier. The value was read
/// from a picture in the thesis (Polo 2014): the capacity that the load leaves over time, f(t), at
/// burstiness level 3.
const PEAK_HOUR: f64 = 18.0;
/// The fraction of the machine that the load uses at its peak. The thesis goes up to 80%. Here, on
/// two cores, a merge of SSTables occupies one core for a while, and the load must fit on the rest
/// without queueing.
const PEAK_SHARE: f64 = 0.50;
/// The fraction of the machine that the load uses when it is lowest.
const EBB_SHARE: f64 = 0.05;
/// The number of steps of the forecast f(t): one for each quarter of an hour.
const FORECAST_STEPS: usize = 96;

/// A simulated day of 24 hours, compressed to `seconds` of real time.
#[derive(Debug, Clone, Copy)]
pub struct Day {
    /// Length of the day in seconds; positive.
    pub seconds: f64,
}

impl Day {
    /// Converts an hour of the compressed day to seconds of real time since midnight.
    pub fn seconds_of(&self, hour: f64) -> f64 {
        hour / HOURS * self.seconds
    }

    /// Converts seconds of real time since midnight to an hour of the compressed day.
    pub fn hour_of(&self, t_s: f64) -> f64 {
        t_s / self.seconds * HOURS
    }

    /// Returns the load at a time in seconds since midnight, as a fraction (0 to 1) of the load's
    /// peak.
    pub fn load_of_peak(&self, t_s: f64) -> f64 {
        let phase = (TAU * (self.hour_of(t_s) - PEAK_HOUR) / HOURS).cos();
        let share = (PEAK_SHARE + EBB_SHARE) / 2.0 + (PEAK_SHARE - EBB_SHARE) / 2.0 * phase;
        share / PEAK_SHARE
    }
}

/// The CPU cost, measured on this machine, of the load: the requests to the store beside which the
/// jobs run.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct LoadCost {
    /// Cores that the load uses at the peak of the day.
    pub peak_cores: f64,
    /// Cores that timers and wake-ups use while no operation runs.
    pub idle_cores: f64,
    /// Operations per second at the peak.
    pub peak_ops_per_s: f64,
}

impl LoadCost {
    /// Returns the cores that the load should use at its peak on a machine of `cores`.
    pub fn peak_cores_target(cores: u32) -> f64 {
        PEAK_SHARE * f64::from(cores)
    }

    /// Returns the cores that the load uses at the fraction `load_of_peak` of its peak rate.
    fn cores_at(&self, load_of_peak: f64) -> f64 {
        self.idle_cores + (self.peak_cores - self.idle_cores) * load_of_peak
    }

    /// Returns the cores that the load uses on average over a day.
    fn mean_cores(&self) -> f64 {
        self.cores_at((PEAK_SHARE + EBB_SHARE) / 2.0 / PEAK_SHARE)
    }

    /// Scales the costs such that their mean over a day is `mean_cores`, which was measured over a
    /// whole day. Only a whole day has flushes and merges in their true proportion. Whether a short
    /// measurement at the peak contains any is chance.
    pub fn corrected(self, mean_cores: f64) -> Self {
        let factor = mean_cores / self.mean_cores().max(1e-6);
        Self {
            peak_cores: self.peak_cores * factor,
            idle_cores: self.idle_cores * factor,
            ..self
        }
    }

    /// Returns f(t) of the day, the forecast of the capacity for analytics over time, in hundredths
    /// of a core: (`cores` - load - `reserve_cores`) times the fraction `counted_on` (0 to 1).
    /// `reserve_cores` includes the cores of other processes. Where they leave less than
    /// [`FLOOR_CORES`], that much counts as left, because analytics get it nevertheless, unless the
    /// load needs it.
    ///
    /// # Errors
    /// If a cost is not finite.
    pub fn forecast(
        &self,
        day: Day,
        cores: u32,
        reserve_cores: f64,
        counted_on: f64,
    ) -> Result<Availability, AvailabilityError> {
        let step_s = day.seconds / FORECAST_STEPS as f64;
        let steps = (0..FORECAST_STEPS).map(|i| {
            let start_s = i as f64 * step_s;
            let load = self.cores_at(day.load_of_peak(start_s + step_s / 2.0));
            let beside_load = (f64::from(cores) - load).max(0.0);
            let left = (beside_load - reserve_cores).max(FLOOR_CORES.min(beside_load));
            Step {
                from_s: start_s,
                hundredths: left * counted_on * 100.0,
            }
        });
        Availability::steps(steps.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_peaks_at_18_and_ebbs_at_6() {
        let day = Day { seconds: 48.0 };
        assert!((day.load_of_peak(day.seconds_of(18.0)) - 1.0).abs() < 1e-9);
        assert!((day.load_of_peak(day.seconds_of(6.0)) - EBB_SHARE / PEAK_SHARE).abs() < 1e-9);
        let most = (0..=240)
            .map(|i| day.load_of_peak(f64::from(i) * 0.2))
            .fold(0.0, f64::max);
        assert!(most <= 1.0 + 1e-9);
    }

    #[test]
    fn a_higher_daily_mean_scales_peak_and_idle_alike() {
        let cost = LoadCost {
            peak_cores: 1.0,
            idle_cores: 0.1,
            peak_ops_per_s: 1000.0,
        };
        let corrected = cost.corrected(cost.mean_cores() * 1.5);
        assert!((corrected.peak_cores - 1.5).abs() < 1e-9);
        assert!((corrected.idle_cores - 0.15).abs() < 1e-9);
        assert_eq!(corrected.peak_ops_per_s, 1000.0);
    }

    #[test]
    fn the_forecast_is_the_capacity_that_the_load_leaves() {
        let cost = LoadCost {
            peak_cores: 1.2,
            idle_cores: 0.0,
            peak_ops_per_s: 1000.0,
        };
        let day = Day { seconds: 24.0 };
        let forecast = cost.forecast(day, 2, 0.1, 1.0).unwrap();
        assert!(
            (forecast.at(18.05) - 70.0).abs() < 0.5,
            "{}",
            forecast.at(18.05)
        );
        assert!(
            (forecast.at(6.05) - 178.0).abs() < 0.5,
            "{}",
            forecast.at(6.05)
        );
    }
}
