//! The forecast that is learned from the record of the load, and the decision whether policies plan by it.
//!
//! ```text
//!   LoadRecord, now ─> learn ─┬─> too early        the record is shorter than two days
//!                             ├─> worse than mean  the forecast of six hours ago was bad
//!                             └─> LoadForecast ─ cores, share ─> f(t), with an interval
//! ```
//!
//! f(t) is the [`Share`] of the cores that the forecast load leaves.

use std::sync::Arc;

use ebb_scheduler::availability::{Availability, AvailabilityError, DAY_S, Step};
use ebb_scheduler::forecast::{Forecast, Forecaster, Options, PlanError, Series};

use crate::load_record::{LoadRecord, SLOT_S, SLOTS_PER_DAY};
use crate::machine::RESERVE;
use crate::share::Share;

/// The least time, in slots, that must be known of the last [`BACKTEST_DAYS`] days for a forecast: two days,
/// less a tenth for gaps.
const MEASURED_MIN: u64 = 2 * SLOTS_PER_DAY * 9 / 10;
/// The most past days on which the forecast methods are tried. With 14 days a forecast takes half a second of CPU
/// time and 8 MB of memory at most; with 28 days, twice as much.
const BACKTEST_DAYS: usize = 14;
/// The slots over which the latest forecast is judged: six hours.
const JUDGED: usize = 72;
/// The least number of measured slots by which a forecast is judged: an hour.
const JUDGED_MIN: usize = 12;
/// The slots before a forecast whose mean is the plan without a forecast: about ten minutes.
const MEAN_SLOTS: usize = 2;
/// The mean error of a forecast that is never bad, as a fraction of the cores: the reserve covers as much.
const ERROR_COVERED: f64 = RESERVE;
/// A forecast is bad if its mean error is more than this many times the error of the mean. It is above 1,
/// because both errors vary.
const WORSE: f64 = 1.25;
/// The fraction of the load's values below the lower end of the interval, and above its upper end.
const TAIL: f64 = 0.05;
/// The days for which the forecast day is repeated. Goals of jobs may be farther ahead than a day.
const DAYS_REPEATED: usize = 7;

/// The decision whether policies plan by a forecast of the load.
#[derive(Debug, Clone, PartialEq)]
pub enum Learned {
    /// Less than two days of the load are known of the last 14, or no method has a forecast for each time of
    /// the day.
    TooEarly,
    /// The forecast from six hours ago was worse than the mean of the ten minutes before it would have been.
    WorseThanMean {
        /// The mean absolute error of the forecast, in cores.
        forecast_error_cores: f64,
        /// The mean absolute error of the mean, in cores.
        mean_error_cores: f64,
    },
    /// The forecast of the next 24 hours.
    Forecast(LoadForecast),
}

/// A forecast of the load over 24 hours, in slots of five minutes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadForecast {
    /// The begin of the first slot, in seconds since 1970.
    from_unix_s: u64,
    /// The median of the load in each slot, in cores.
    median: Vec<f64>,
    /// The load that 5 of 100 values are below, in cores.
    low: Vec<f64>,
    /// The load that 5 of 100 values are above, in cores.
    high: Vec<f64>,
    methods: String,
}

/// The forecast f(t) of the capacity for analytics over the runtime's time, in hundredths of a core.
#[derive(Debug, Clone)]
pub struct LeftForecast {
    /// The capacity at the median of the load.
    pub expected: Arc<Availability>,
    /// The capacity at the upper end of the interval of the load: 95 of 100 values are above it.
    pub least: Availability,
    /// The capacity at the lower end of the interval of the load: 95 of 100 values are below it.
    pub most: Availability,
}

/// Decides at `now_unix_s`, in seconds since 1970, whether policies plan by a forecast of the load, on a machine
/// with `cores` cores. Slots of the record from the present one on are ignored.
///
/// This takes up to a second of CPU time.
pub fn learn(record: &LoadRecord, now_unix_s: u64, cores: f64) -> Learned {
    let end = now_unix_s / SLOT_S;
    let Some((first, slots)) = record.until(end) else {
        return Learned::TooEarly;
    };
    // Errors of forecasts over days without measurements are unknown, so these days would make no interval.
    let lately = slots
        .len()
        .saturating_sub(BACKTEST_DAYS * SLOTS_PER_DAY as usize);
    let series = Series::new((first * SLOT_S) as f64, SLOT_S as f64, slots);
    let Ok(mut series) = series else {
        return Learned::TooEarly;
    };
    // If a time of day is missing in the first days, most methods have no forecast.
    series.fill_short_gaps();
    let known = (lately..series.len()).filter_map(|slot| series.value(slot));
    if (known.count() as u64) < MEASURED_MIN {
        return Learned::TooEarly;
    }
    if let Some((forecast_error_cores, mean_error_cores)) = errors_lately(&series)
        && forecast_error_cores > ERROR_COVERED * cores
        && forecast_error_cores > WORSE * mean_error_cores
    {
        return Learned::WorseThanMean {
            forecast_error_cores,
            mean_error_cores,
        };
    }
    let forecast = Forecaster::new(&series, options()).and_then(|mut made| made.from_end());
    let from_unix_s = end * SLOT_S;
    match forecast
        .ok()
        .and_then(|forecast| LoadForecast::of(&forecast, from_unix_s).ok())
    {
        Some(forecast) => Learned::Forecast(forecast),
        None => Learned::TooEarly,
    }
}

fn options() -> Options {
    Options {
        backtest_days: BACKTEST_DAYS,
        past_days_min: 1,
        ..Options::default()
    }
}

/// Returns two mean absolute errors over the last slots of `series`, in cores: that of the median forecast made
/// before these slots, and that of the mean of the load just before them. `None` if no forecast could be made
/// there, or too few slots were measured.
fn errors_lately(series: &Series) -> Option<(f64, f64)> {
    let then = series.len().checked_sub(JUDGED)?;
    let forecast = Forecaster::new(series, options()).ok()?.at(then).ok()?;
    let median = forecast.quantile(0.5).ok()?;
    let before = then.saturating_sub(MEAN_SLOTS)..then;
    let before: Vec<f64> = before.filter_map(|slot| series.value(slot)).collect();
    let mean = before.iter().sum::<f64>() / before.len() as f64;
    let (mut count, mut by_forecast, mut by_mean) = (0, 0.0, 0.0);
    for (ahead, forecast) in median.iter().take(JUDGED).enumerate() {
        if let Some(value) = series.value(then + ahead) {
            count += 1;
            by_forecast += (value - forecast).abs();
            by_mean += (value - mean).abs();
        }
    }
    let is_known = !before.is_empty() && count >= JUDGED_MIN;
    is_known.then(|| (by_forecast / count as f64, by_mean / count as f64))
}

impl LoadForecast {
    fn of(forecast: &Forecast, from_unix_s: u64) -> Result<Self, PlanError> {
        let methods: Vec<String> = forecast.methods().iter().map(ToString::to_string).collect();
        Ok(Self {
            from_unix_s,
            median: forecast.quantile(0.5)?,
            low: forecast.quantile(TAIL)?,
            high: forecast.quantile(1.0 - TAIL)?,
            methods: methods.join("; "),
        })
    }

    /// Returns the methods whose mean is the forecast, best first, separated by semicolons.
    pub fn methods(&self) -> &str {
        &self.methods
    }

    /// Returns whether `unix_s`, in seconds since 1970, is within the 24 hours of the forecast.
    pub fn covers(&self, unix_s: f64) -> bool {
        let ahead_s = unix_s - self.from_unix_s as f64;
        (0.0..DAY_S).contains(&ahead_s)
    }

    /// Returns the median of the load at `unix_s`, in seconds since 1970, in cores; `None` outside of the 24 hours
    /// of the forecast.
    pub fn load_at(&self, unix_s: f64) -> Option<f64> {
        let slot = (unix_s - self.from_unix_s as f64) / SLOT_S as f64;
        let load = self.median.get(slot as usize).copied();
        load.filter(|_| self.covers(unix_s))
    }

    /// Returns f(t) as it is at `now_s`, a time of the runtime, for analytics that get `share` of what the load
    /// leaves of `cores` cores. The runtime's time 0 was at `zero_unix_s`, in seconds since 1970. After the 24
    /// hours of the forecast, the day is repeated for a week, and then its mean holds.
    ///
    /// # Errors
    /// If a number is not finite, or `share` is negative.
    pub fn left(
        &self,
        cores: f64,
        share: Share,
        (now_s, zero_unix_s): (f64, f64),
    ) -> Result<LeftForecast, AvailabilityError> {
        let from_s = self.from_unix_s as f64 - zero_unix_s;
        let left = |load: &[f64]| {
            let left = load.iter().map(|load| (cores - load).max(0.0) * 100.0);
            let day: Vec<f64> = left.collect();
            let mean = day.iter().sum::<f64>() / day.len() as f64;
            let days = day.iter().cycle().take(DAYS_REPEATED * day.len());
            let step = |(slot, hundredths): (usize, &f64)| {
                let from_s = from_s + (slot as u64 * SLOT_S) as f64;
                Step {
                    from_s,
                    hundredths: hundredths * share.at(from_s - now_s),
                }
            };
            Availability::steps(days.chain([&mean]).enumerate().map(step).collect())
        };
        Ok(LeftForecast {
            expected: Arc::new(left(&self.median)?),
            least: left(&self.high)?,
            most: left(&self.low)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;
    use crate::load_record::tests::{MIDNIGHT_S, record, slot};

    const CORES: f64 = 2.0;
    const HOUR_SLOTS: u64 = SLOTS_PER_DAY / 24;

    /// Returns the load of a slot, counted from midnight: 0.2 cores at 3:00, 1.4 cores at 15:00.
    fn daily(slot: u64) -> f64 {
        let phase = (slot as f64 / SLOTS_PER_DAY as f64 - 0.125) * TAU;
        0.8 - 0.6 * phase.cos()
    }

    fn days(number: u64) -> LoadRecord {
        record(number * SLOTS_PER_DAY, |slot| Some(daily(slot)))
    }

    fn midnight_after(days: u64) -> u64 {
        MIDNIGHT_S + days * 86_400
    }

    fn forecast(learned: Learned) -> LoadForecast {
        match learned {
            Learned::Forecast(forecast) => forecast,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the hour of the forecast with the best load.
    fn hour_of(load: &[f64], is_better: impl Fn(f64, f64) -> bool) -> u64 {
        let better = |best: usize, slot: usize| {
            if is_better(load[slot], load[best]) {
                slot
            } else {
                best
            }
        };
        let best = (0..load.len()).reduce(better).unwrap();
        best as u64 / HOUR_SLOTS
    }

    #[test]
    fn after_two_days_the_trough_and_the_peak_are_at_the_right_hours() {
        assert_eq!(learn(&days(1), midnight_after(1), CORES), Learned::TooEarly);
        for number in [2, 4] {
            let forecast = forecast(learn(&days(number), midnight_after(number), CORES));
            assert_eq!(hour_of(&forecast.median, |a, b| a < b), 3);
            assert_eq!(hour_of(&forecast.median, |a, b| a > b), 15);
        }
        // At noon, the forecast begins there.
        let noon = midnight_after(4) - 43_200;
        let at_noon = forecast(learn(&days(4), noon, CORES));
        assert_eq!(hour_of(&at_noon.median, |a, b| a > b), 3);
        assert!(at_noon.covers(noon as f64) && !at_noon.covers(noon as f64 - 1.0));
        assert!(!at_noon.covers(noon as f64 + 86_400.0));
        let load_at = |hour: f64| at_noon.load_at(noon as f64 + hour * 3600.0);
        assert!(load_at(3.0) > Some(1.3) && load_at(14.99) < Some(0.3));
        assert_eq!((load_at(-0.01), load_at(24.0)), (None, None));
    }

    #[test]
    fn without_two_measured_days_there_is_no_forecast() {
        assert_eq!(
            learn(&LoadRecord::default(), midnight_after(9), CORES),
            Learned::TooEarly
        );
        let rare = record(30 * SLOTS_PER_DAY, |slot| (slot % 60 == 0).then_some(1.0));
        assert_eq!(learn(&rare, midnight_after(30), CORES), Learned::TooEarly);
        // The server comes back after weeks.
        for number in [18, 60] {
            let now = midnight_after(number);
            assert_eq!(learn(&days(3), now, CORES), Learned::TooEarly, "{number}");
        }
    }

    #[test]
    fn a_forecast_is_made_over_a_gap() {
        let gap = 4 * SLOTS_PER_DAY - 60..4 * SLOTS_PER_DAY + 30;
        let load = |slot| (!gap.contains(&slot)).then(|| daily(slot));
        let down = record(6 * SLOTS_PER_DAY, load);
        let whole = forecast(learn(&down, midnight_after(6), CORES));
        assert_eq!(hour_of(&whole.median, |a, b| a < b), 3);
        // The server starts six hours after it stopped.
        let restarted = forecast(learn(&days(4), midnight_after(4) + 21_600, CORES));
        assert_eq!(restarted.from_unix_s, midnight_after(4) + 21_600);
        assert_eq!(hour_of(&restarted.median, |a, b| a > b), 9);
    }

    #[test]
    fn a_restart_on_the_first_day_leaves_the_methods_of_two_whole_days() {
        let down = record(2 * SLOTS_PER_DAY, |slot| {
            (!(50..53).contains(&slot)).then(|| daily(slot))
        });
        let restarted = forecast(learn(&down, midnight_after(2), CORES));
        let whole = forecast(learn(&days(2), midnight_after(2), CORES));
        assert_eq!(restarted.methods(), whole.methods());
    }

    #[test]
    fn slots_from_the_future_are_ignored() {
        let now = midnight_after(3);
        let known = learn(&days(3), now, CORES);
        let ahead = record(5 * SLOTS_PER_DAY, |slot| {
            Some(if slot < 3 * SLOTS_PER_DAY {
                daily(slot)
            } else {
                1.9
            })
        });
        assert_eq!(learn(&ahead, now, CORES), known);
        // A clock that was set back by years has nothing to learn from yet.
        assert_eq!(learn(&ahead, 1_000_000_000, CORES), Learned::TooEarly);
    }

    #[test]
    fn after_the_clock_was_set_back_the_forecast_goes_on() {
        let mut back = days(4);
        let number = (midnight_after(4) - 21_600) / SLOT_S;
        assert!(!back.push(slot(number, 0.5)).is_appended);
        let forecast = forecast(learn(&back, (number + 1) * SLOT_S, CORES));
        assert!(forecast.covers(((number + 1) * SLOT_S) as f64));
    }

    #[test]
    fn a_forecast_that_was_worse_than_the_mean_is_refused() {
        let slots = 5 * SLOTS_PER_DAY;
        // On the fifth day, the load stays from 17:50 on at what it was then.
        let flat = slots - JUDGED as u64 - 2;
        let stayed = record(slots, |slot| Some(daily(slot.min(flat))));
        let Learned::WorseThanMean {
            forecast_error_cores,
            mean_error_cores,
        } = learn(&stayed, midnight_after(5), CORES)
        else {
            panic!("the load did not follow the time of day");
        };
        assert!(forecast_error_cores > 0.2 && mean_error_cores < 0.01);
        // On a machine with many cores the same error does no harm.
        assert!(matches!(
            learn(&stayed, midnight_after(5), 64.0),
            Learned::Forecast(_)
        ));
    }

    #[test]
    fn f_of_t_is_what_the_load_leaves_by_the_clock_of_the_runtime() {
        let load = LoadForecast {
            from_unix_s: MIDNIGHT_S,
            median: vec![0.5, 1.5],
            low: vec![0.25, 1.0],
            high: vec![1.0, 2.5],
            methods: String::new(),
        };
        // The runtime started 1,000 seconds before midnight.
        let zero_unix_s = MIDNIGHT_S as f64 - 1000.0;
        let share = |lately, usual| Share { lately, usual };
        let clocks = (1000.0, zero_unix_s);
        let left = load.left(1.9, share(0.5, 0.5), clocks).unwrap();
        let at = |left: &Availability, t_s: f64| (left.at(t_s) * 10.0).round() / 10.0;
        assert_eq!(at(&left.expected, 1000.0), 70.0);
        assert_eq!(at(&left.expected, 1300.0), 20.0);
        assert_eq!(at(&left.expected, 1600.0), 70.0, "the day is repeated");
        assert_eq!(at(&left.expected, 1e7), 45.0);
        assert_eq!(
            (at(&left.least, 1000.0), at(&left.most, 1000.0)),
            (45.0, 82.5)
        );
        assert_eq!(at(&left.least, 1300.0), 0.0);
        let left = load.left(1.9, share(1.0, 0.5), clocks).unwrap();
        assert_eq!(at(&left.expected, 1000.0), 140.0);
        // The mean, 90, times the share in 4,200 s.
        assert_eq!(at(&left.expected, 1e7), 59.0);
        assert!(load.left(1.9, share(f64::NAN, 0.5), clocks).is_err());
    }
}
