//! From the load that was measured to f(t): what it will leave.

use std::collections::VecDeque;

use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::forecast::{
    Forecast, ForecastError, Forecaster, Options, PlanError, Series, SeriesError,
};
use thiserror::Error;

/// Past days that the methods are tried on, at most.
const BACKTEST_DAYS_MAX: usize = 28;

/// Slots that are kept, the latest: of a quarter of an hour those of a year. 560 KiB.
const SLOTS_MAX: u64 = 35_040;

/// The cores that the load used, in even slots of time: the latest [35,040](SLOTS_MAX).
#[derive(Debug, Clone, PartialEq)]
pub struct LoadHistory {
    step_s: f64,
    /// The number of the first slot, from time 0 on.
    first: u64,
    /// Sum of cores times seconds, and seconds, of each slot.
    slots: VecDeque<(f64, f64)>,
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
}

impl LoadHistory {
    /// Nothing measured yet; slots of `step_s` seconds, positive.
    pub fn new(step_s: f64) -> Self {
        Self {
            step_s,
            first: 0,
            slots: VecDeque::new(),
        }
    }

    /// Adds that the load used so many cores from one moment to another, in
    /// seconds. It counts for the slot of its middle, so measurements should be
    /// shorter than a slot; those of a slot are averaged over time. One that is older
    /// than all slots is left out.
    pub fn record(&mut self, from_s: f64, to_s: f64, cores: f64) {
        let (length_s, middle_s) = (to_s - from_s, (from_s + to_s) / 2.0);
        if !(length_s > 0.0 && middle_s >= 0.0 && cores.is_finite()) {
            return;
        }
        let Some(slot) = self.slot((middle_s / self.step_s) as u64) else {
            return;
        };
        let (cores_s, seconds) = slot;
        *cores_s += cores.max(0.0) * length_s;
        *seconds += length_s;
    }

    /// The slot of this number; makes it, and room for it.
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
        let start_s = self.first as f64 * self.step_s;
        let series = Series::new(start_s, self.step_s, self.cores())?;
        let days = (series.len() as f64 * self.step_s / day_s).floor() as usize;
        let options = Options {
            day_s,
            horizon_s: day_s,
            // The first two days and the one that is forecast are no origin.
            backtest_days: days.saturating_sub(3).clamp(1, BACKTEST_DAYS_MAX),
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
    fn the_oldest_slots_go_and_a_wrong_time_does_not_ask_for_all_memory() {
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
