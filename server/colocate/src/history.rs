//! From the load that was measured to f(t): what it will leave.

use ebb_scheduler::availability::{Availability, AvailabilityError, Step};
use ebb_scheduler::forecast::{
    Forecast, ForecastError, Forecaster, Options, PlanError, Series, SeriesError,
};
use thiserror::Error;

/// Past days that the methods are tried on, at most.
const BACKTEST_DAYS_MAX: usize = 28;

/// The cores that the load used, in even slots of time from 0 on.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadHistory {
    step_s: f64,
    /// Sum of cores times seconds, and seconds, of each slot.
    slots: Vec<(f64, f64)>,
}

/// Why there is no f(t).
#[derive(Debug, Clone, PartialEq, Error)]
pub enum HistoryError {
    /// What was measured is no series.
    #[error("the measured load makes no series: {0}")]
    Series(#[from] SeriesError),
    /// Too little was measured, or it says nothing.
    #[error("no forecast from the measured load: {0}")]
    Forecast(#[from] ForecastError),
    /// Load and machine make no f(t).
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The same.
    #[error(transparent)]
    Availability(#[from] AvailabilityError),
}

impl LoadHistory {
    /// Nothing measured yet; slots of `step_s` seconds, positive.
    pub fn new(step_s: f64) -> Self {
        Self {
            step_s,
            slots: Vec::new(),
        }
    }

    /// Adds that the load used so many cores from one moment to another, in
    /// seconds. It counts for the slot of its middle, so measurements should be
    /// shorter than a slot; those of a slot are averaged over time.
    pub fn record(&mut self, from_s: f64, to_s: f64, cores: f64) {
        let (length_s, middle_s) = (to_s - from_s, (from_s + to_s) / 2.0);
        if !(length_s > 0.0 && middle_s >= 0.0 && cores.is_finite()) {
            return;
        }
        let slot = (middle_s / self.step_s) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, (0.0, 0.0));
        }
        let (cores_s, seconds) = &mut self.slots[slot];
        *cores_s += cores.max(0.0) * length_s;
        *seconds += length_s;
    }

    /// The load of each slot, in cores; `None` where nothing was measured.
    pub fn cores(&self) -> Vec<Option<f64>> {
        let mean = |&(cores_s, seconds): &(f64, f64)| (seconds > 0.0).then(|| cores_s / seconds);
        self.slots.iter().map(mean).collect()
    }

    /// The load of the day that follows, of days of `day_s` seconds, with
    /// intervals from how far such forecasts of the measured days were off. It
    /// begins where the history ends.
    ///
    /// # Errors
    /// When less than three days were measured, a day is no whole number of
    /// slots, or nothing was used at all.
    pub fn forecast(&self, day_s: f64) -> Result<Forecast, HistoryError> {
        let series = Series::new(0.0, self.step_s, self.cores())?;
        let days = (series.len() as f64 * self.step_s / day_s).floor() as usize;
        let options = Options {
            day_s,
            horizon_s: day_s,
            // The first two days and the one that is forecast are no origin.
            backtest_days: days.saturating_sub(3).clamp(1, BACKTEST_DAYS_MAX),
            ..Options::default()
        };
        Ok(Forecaster::new(&series, options)?.from_end()?)
    }
}

/// f(t) over the day that was forecast, from 0 on: what the load, at `confidence`
/// of staying below, leaves of `cores`, in hundredths of a core. `faster` is how
/// much faster the days of the history were than the one that is planned; after
/// its end the day repeats its last slot.
///
/// # Errors
/// When `confidence` is not between 0.01 and 0.99, or a number is not finite.
pub fn left_by(
    forecast: &Forecast,
    cores: f64,
    confidence: f64,
    faster: f64,
) -> Result<Availability, HistoryError> {
    let load = forecast.quantile(confidence)?;
    let step = |(slot, load): (usize, &f64)| Step {
        from_s: slot as f64 * forecast.step_s() * faster,
        hundredths: (cores - load).max(0.0) * 100.0,
    };
    Ok(Availability::steps(
        load.iter().enumerate().map(step).collect(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days of 24 slots, with a peak at noon.
    fn days(number: usize) -> LoadHistory {
        let mut history = LoadHistory::new(1.0);
        for slot in 0..number * 24 {
            let phase = (slot % 24) as f64 / 24.0 * std::f64::consts::TAU;
            let (from_s, cores) = (slot as f64, 0.5 - 0.4 * phase.cos());
            // Two measurements a slot, around their mean.
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
    fn days_that_repeat_are_forecast_as_they_were() {
        let forecast = days(5).forecast(24.0).unwrap();
        assert_eq!(forecast.point().len(), 24);
        assert!((forecast.point()[12] - 0.9).abs() < 1e-6);
        let left = left_by(&forecast, 1.9, 0.5, 2.0).unwrap();
        assert!((left.at(25.0) - 100.0).abs() < 1e-3, "{}", left.at(25.0));
        assert!((left.at(0.5) - 180.0).abs() < 1e-3, "{}", left.at(0.5));
    }

    #[test]
    fn too_little_history_is_said_to_be_that() {
        let error = days(1).forecast(24.0).unwrap_err().to_string();
        assert!(error.contains("too few"), "{error}");
        assert!(LoadHistory::new(1.0).forecast(24.0).is_err());
    }
}
