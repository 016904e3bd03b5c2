//! The load over days without jobs, and the forecast f(t) of the capacity that it will leave.

use anyhow::Result;
use ebb_colocate::MeanCores;
use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::forecast::{Forecast, Forecaster, Options, Series};

/// The maximal number of past days that the forecast methods are tested on.
const BACKTEST_DAYS_MAX: usize = 28;

/// The cores that the load used, in equal slots of a run.
#[derive(Debug)]
pub(super) struct LoadSlots {
    step_s: f64,
    /// The measurements of each slot, oldest first. The first slot begins at time 0.
    slots: Vec<MeanCores>,
}

impl LoadSlots {
    /// Creates an empty series; slots have `step_s` seconds, which must be positive.
    pub(super) fn new(step_s: f64) -> Self {
        Self {
            step_s,
            slots: Vec::new(),
        }
    }

    /// Records that the load used `cores` cores from `from_s` to `to_s`, times of the run. The whole measurement
    /// is added to the slot that contains its middle, so it should be shorter than a slot. Ignores a measurement
    /// without a length, or whose numbers are not finite.
    pub(super) fn record(&mut self, from_s: f64, to_s: f64, cores: f64) {
        let Some(measured) = MeanCores::of(to_s - from_s, cores) else {
            return;
        };
        let slot = ((from_s + to_s) / 2.0 / self.step_s) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, MeanCores::default());
        }
        self.slots[slot].add(measured);
    }

    /// Returns the load of each slot, oldest first, in cores; `None` for slots without measurements.
    pub(super) fn cores(&self) -> Vec<Option<f64>> {
        self.slots.iter().copied().map(MeanCores::mean).collect()
    }

    /// Forecasts the load of the day that begins at the end of the slots. A day has `day_s` seconds. The quantiles
    /// of the forecast, which show its uncertainty, come from the errors of forecasts made in the same way for
    /// past days.
    ///
    /// # Errors
    /// If there are less than three days, a day is not a whole number (at least two) of slots, or some time of
    /// day was never measured.
    pub(super) fn forecast(&self, day_s: f64) -> Result<Forecast> {
        let series = Series::new(0.0, self.step_s, self.cores())?;
        let days = (series.len() as f64 * self.step_s / day_s).floor() as usize;
        let options = Options {
            day_s,
            horizon_s: day_s,
            // The first two days and the forecast day are not used as origins.
            backtest_days: days.saturating_sub(3).clamp(1, BACKTEST_DAYS_MAX),
            ..Options::default()
        };
        Ok(Forecaster::new(&series, options)?.from_end()?)
    }
}

/// Returns f(t), the capacity left to jobs over the forecast day, from time 0 on, in hundredths of a core:
/// `cores`, less the cores that the load does not exceed with the probability `confidence`. A day of the
/// measured load lasted 1 / `faster` of the planned day, so times of the forecast are multiplied by `faster`.
/// After the planned day, f(t) keeps its last value.
///
/// # Errors
/// If `confidence` is not between 0.01 and 0.99, or a number is not finite.
pub(super) fn left_by(
    forecast: &Forecast,
    cores: f64,
    confidence: f64,
    faster: f64,
) -> Result<Availability> {
    let load = forecast.quantile(confidence)?;
    let step = |(slot, load): (usize, &f64)| Step {
        from_s: slot as f64 * forecast.step_s() * faster,
        hundredths: (cores - load).max(0.0) * 100.0,
    };
    let steps = load.iter().enumerate().map(step);
    Ok(Availability::steps(steps.collect())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns days of 24 slots, with a peak at noon.
    fn days(number: usize) -> LoadSlots {
        let mut days = LoadSlots::new(1.0);
        for slot in 0..number * 24 {
            let phase = (slot % 24) as f64 / 24.0 * std::f64::consts::TAU;
            let (from_s, cores) = (slot as f64, 0.5 - 0.4 * phase.cos());
            // Two measurements per slot, symmetric around the mean.
            days.record(from_s, from_s + 0.5, cores - 0.1);
            days.record(from_s + 0.5, from_s + 1.0, cores + 0.1);
        }
        days
    }

    #[test]
    fn measurements_of_a_slot_are_averaged_over_time() {
        let mut slots = LoadSlots::new(1.0);
        slots.record(0.0, 0.75, 1.0);
        slots.record(0.75, 1.0, 2.0);
        slots.record(2.0, 3.0, 0.5);
        slots.record(3.0, 3.0, 9.0);
        assert_eq!(slots.cores(), [Some(1.25), None, Some(0.5)]);
    }

    #[test]
    fn days_that_repeat_are_forecast_as_they_were() {
        let forecast = days(5).forecast(24.0).unwrap();
        assert_eq!(forecast.point().len(), 24);
        assert!((forecast.point()[12] - 0.9).abs() < 1e-6);
        let left = left_by(&forecast, 1.9, 0.5, 2.0).unwrap();
        assert!((left.at(25.0) - 100.0).abs() < 1e-3, "{}", left.at(25.0));
        assert!((left.at(0.5) - 180.0).abs() < 1e-3, "{}", left.at(0.5));
    }

    #[test]
    fn too_few_days_are_an_error() {
        let error = days(1).forecast(24.0).unwrap_err().to_string();
        assert!(error.contains("too few"), "{error}");
        assert!(LoadSlots::new(1.0).forecast(24.0).is_err());
    }
}
