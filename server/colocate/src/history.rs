//! The history of the measured load, and the forecast f(t) of the capacity that it will leave.

use std::collections::VecDeque;

use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::forecast::{
    Forecast, ForecastError, Forecaster, Options, PlanError, Series, SeriesError,
};
use thiserror::Error;

/// The maximal number of past days that the forecast methods are tested on.
const BACKTEST_DAYS_MAX: usize = 28;

/// The maximal number of slots that are kept, the latest ones: a year of quarters of an hour, 561 kB.
const SLOTS_MAX: u64 = 35_040;

/// The cores that the load used, in equal slots of time: the latest 35,040.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadHistory {
    step_s: f64,
    /// The number of the first slot that is kept. Slot n begins at time n * `step_s`.
    first: u64,
    /// For each slot, oldest first: the core-seconds that the load used in the measurements of the slot, and
    /// the length of these measurements in seconds. The slot's mean number of cores is the first divided by
    /// the second.
    slots: VecDeque<(f64, f64)>,
}

/// The reason why there is no forecast.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum HistoryError {
    /// The history has no measurement, the step between the slots is not positive and finite, or a mean is
    /// more than 1e100 cores.
    #[error("the measured load makes no series: {0}")]
    Series(#[from] SeriesError),
    /// There are too few measurements, or so many gaps that no method can forecast, or a day is not a whole
    /// number of slots.
    #[error("no forecast from the measured load: {0}")]
    Forecast(#[from] ForecastError),
}

impl LoadHistory {
    /// Creates an empty history; slots have `step_s` seconds, which must be positive.
    pub fn new(step_s: f64) -> Self {
        Self {
            step_s,
            first: 0,
            slots: VecDeque::new(),
        }
    }

    /// Records that the load used `cores` cores from `from_s` to `to_s`. The whole measurement is
    /// added to the slot that contains its middle, so it should be shorter than a slot. The mean of
    /// a slot weights each of its measurements by the length. A negative `cores` counts as 0.
    /// Ignores a measurement if it is older than all slots, if its time is negative or its length
    /// is not positive, or if a number is not finite, as after a division by a time of 0.
    pub fn record(&mut self, from_s: f64, to_s: f64, cores: f64) {
        let length_s = to_s - from_s;
        let used_s = cores.max(0.0) * length_s;
        let number = (from_s + to_s) / 2.0 / self.step_s;
        let has_slot = (0.0..u64::MAX as f64).contains(&number);
        // `f64::max` turns NaN into 0, so `used_s` alone does not show that `cores` is a number.
        if !(length_s > 0.0 && has_slot && cores.is_finite() && used_s.is_finite()) {
            return;
        }
        let Some((cores_s, seconds)) = self.slot(number as u64) else {
            return;
        };
        *cores_s += used_s;
        *seconds += length_s;
    }

    /// Returns the core-seconds and the measured seconds of the slot with this number; `None` if
    /// the slot is older than the oldest one that is kept. Extends the history with empty slots up
    /// to this one if necessary, and drops the oldest slots, so that at most `SLOTS_MAX` remain.
    fn slot(&mut self, number: u64) -> Option<&mut (f64, f64)> {
        let at = number.checked_sub(self.first)?;
        let too_many = (at + 1).saturating_sub(SLOTS_MAX);
        let gone = self.slots.len().min(too_many as usize);
        self.slots.drain(..gone);
        self.first += too_many;
        let at = (at - too_many) as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, (0.0, 0.0));
        }
        self.slots.get_mut(at)
    }

    /// Returns the load of each slot, oldest first, in cores; `None` for slots without measurements.
    pub fn cores(&self) -> Vec<Option<f64>> {
        let mean = |&(cores_s, seconds): &(f64, f64)| (seconds > 0.0).then(|| cores_s / seconds);
        self.slots.iter().map(mean).collect()
    }

    /// Forecasts the load of the day that begins at the end of the history. A day has `day_s`
    /// seconds. The quantiles of the forecast, which show its uncertainty, come from the errors
    /// of forecasts made in the same way for past days.
    ///
    /// # Errors
    /// If the history is shorter than three days, a day is not a whole number (at least two) of
    /// slots, or some time of day was never measured.
    pub fn forecast(&self, day_s: f64) -> Result<Forecast, HistoryError> {
        let start_s = self.first as f64 * self.step_s;
        let series = Series::new(start_s, self.step_s, self.cores())?;
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
/// history lasted 1 / `faster` of the planned day, so times of the forecast are multiplied by `faster`. After
/// the planned day, f(t) keeps its last value.
///
/// # Errors
/// If `confidence` is not between 0.01 and 0.99, or a number is not finite.
pub fn left_by(
    forecast: &Forecast,
    cores: f64,
    confidence: f64,
    faster: f64,
) -> Result<Availability, PlanError> {
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
    fn days(number: usize) -> LoadHistory {
        let mut history = LoadHistory::new(1.0);
        for slot in 0..number * 24 {
            let phase = (slot % 24) as f64 / 24.0 * std::f64::consts::TAU;
            let (from_s, cores) = (slot as f64, 0.5 - 0.4 * phase.cos());
            // Two measurements per slot, symmetric around the mean.
            history.record(from_s, from_s + 0.5, cores - 0.1);
            history.record(from_s + 0.5, from_s + 1.0, cores + 0.1);
        }
        history
    }

    #[test]
    fn measurements_of_a_slot_are_averaged_over_time() {
        let mut history = LoadHistory::new(1.0);
        history.record(0.0, 0.75, 1.0);
        history.record(0.75, 1.0, 2.0);
        history.record(2.0, 3.0, 0.5);
        history.record(3.0, 3.0, 9.0);
        assert_eq!(history.cores(), [Some(1.25), None, Some(0.5)]);
    }

    #[test]
    fn the_oldest_slots_are_dropped_and_a_wrong_time_does_not_allocate_all_memory() {
        let mut history = LoadHistory::new(1.0);
        history.record(0.0, 1.0, 1.0);
        let last = SLOTS_MAX as f64;
        history.record(last, last + 1.0, 2.0);
        let cores = history.cores();
        assert_eq!(cores.len() as u64, SLOTS_MAX);
        assert_eq!((cores[0], *cores.last().unwrap()), (None, Some(2.0)));
        history.record(0.0, 1.0, 1.0);
        assert_eq!(history.cores(), cores, "it is too old");
        history.record(1e18, 1e18 + 1e6, 3.0);
        let cores = history.cores();
        assert_eq!(cores.len() as u64, SLOTS_MAX);
        let measured: Vec<_> = cores.into_iter().flatten().collect();
        assert_eq!(measured, [3.0]);
    }

    /// Regression: a measurement at a time that no slot number can express overflowed the number of
    /// slots, and all slots were removed. A measurement whose length is not finite left a slot
    /// without a mean.
    #[test]
    fn measurements_that_are_not_finite_or_have_no_slot_are_ignored() {
        let mut history = LoadHistory::new(1.0);
        history.record(0.0, 1.0, 0.5);
        let (inf, nan, max) = (f64::INFINITY, f64::NAN, f64::MAX);
        for (from_s, to_s, cores) in [
            (0.0, inf, 1.0),
            (0.0, inf, 0.0),
            (-inf, 1.0, 1.0),
            (-inf, inf, 1.0),
            (-max, max, 1.0),
            (max / 2.0, max, 1.0),
            (1e30, 2e30, 1.0),
            (nan, 1.0, 1.0),
            (0.0, nan, 1.0),
            (0.0, 1.0, inf),
            (0.0, 1.0, -inf),
            (0.0, 1.0, nan),
            (0.0, 1.5, max),
        ] {
            history.record(from_s, to_s, cores);
            let record = format!("from {from_s} to {to_s}: {cores}");
            assert_eq!(history.cores(), [Some(0.5)], "{record}");
        }
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
    fn too_little_history_is_an_error() {
        let error = days(1).forecast(24.0).unwrap_err().to_string();
        assert!(error.contains("too few"), "{error}");
        assert!(LoadHistory::new(1.0).forecast(24.0).is_err());
    }
}
