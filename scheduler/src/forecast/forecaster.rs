//! Backtests the pool of methods on past days and forecasts with the methods that did
//! best.

use super::backtest::{Backtest, Choice};
use super::grid::Grid;
use super::intervals::Errors;
use super::method::{Cycle, Method};
use super::predicted::Forecast;
use super::profile::median;
use super::series::Series;
use crate::availability::DAY_S;
use thiserror::Error;

/// Longest horizon in slots (steps of the series): with steps of a minute, a bit more than a year.
const HORIZON_MAX: f64 = 600_000.0;

/// Largest number of past days in an option, such as those of a backtest: ten years.
const BACKTEST_DAYS_MAX: usize = 3_660;

/// Parameters of a [`Forecaster`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Length of a day in seconds: a whole number of the series' steps, at least two and fewer than
    /// a million. A week is seven days of this length.
    pub day_s: f64,
    /// Length of the forecast, in seconds: more than 0, rounded up to a whole step, and at most
    /// 600,000 steps.
    pub horizon_s: f64,
    /// Number of past days on which the methods are tried; 1 to 3,660.
    pub backtest_days: usize,
    /// Least number of days before the last horizon of a series from which a forecast is made; 1 to 3,660. With
    /// 1 day and a horizon of a day, a forecast begins after two days, and compares the methods on the second one.
    pub past_days_min: usize,
}

impl Default for Options {
    /// Returns the options for a forecast of the next 24 hours from a backtest over four weeks.
    fn default() -> Self {
        Self {
            day_s: DAY_S,
            horizon_s: DAY_S,
            backtest_days: 28,
            past_days_min: 2,
        }
    }
}

/// The reason why there is no forecast.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ForecastError {
    /// An option is out of its range.
    #[error("{what} is {value}: {expected}")]
    Option {
        /// Name of the option.
        what: &'static str,
        /// The rejected value.
        value: f64,
        /// The range of valid values.
        expected: &'static str,
    },
    /// The length of a day is not a multiple of the series' step, is shorter than two steps, or has
    /// a million steps or more.
    #[error(
        "a day of {day_s} s is not a whole number, at least two, of the series' steps of {step_s} s: \
         bring the series to even steps that divide a day"
    )]
    Day {
        /// The length of a day in seconds, as the caller passed it.
        day_s: f64,
        /// The series' step in seconds.
        step_s: f64,
    },
    /// There are too few slots before the one at which the forecast should begin.
    #[error(
        "{have} values are too few: the least number of days and the horizon before the origin make {need}"
    )]
    TooShort {
        /// Number of slots, gaps included, before the one at which the forecast should begin.
        have: usize,
        /// Number of slots, gaps included, that a forecast needs before it.
        need: usize,
    },
    /// There are too few slots before the first of the days that an evaluation forecasts.
    #[error(
        "{have} values are too few for forecasts of the last days ({days}), each from the values before it: \
         that takes {need}, the values of {need_days} days"
    )]
    TooShortToEvaluate {
        /// Number of slots of the series, gaps included.
        have: usize,
        /// Number of slots, gaps included, that the evaluation needs.
        need: usize,
        /// Number of days to forecast.
        days: usize,
        /// Number of days that these slots make, rounded up.
        need_days: usize,
    },
    /// The slot at which the forecast should begin lies after the end of the series.
    #[error("the series has {have} values, none up to {origin}: forecast from its end")]
    Beyond {
        /// The slot at which the forecast should begin, as the caller passed it.
        origin: usize,
        /// The length of the series in slots.
        have: usize,
    },
    /// The load of the forecast days is zero, or was never measured, so errors relative to it do
    /// not exist.
    #[error(
        "the {scored} values of the forecast days are all 0, so there are no errors relative to them: use days with load"
    )]
    NoLoad {
        /// Number of measured values in the forecast days.
        scored: usize,
    },
    /// No method can forecast, because values are missing from the series.
    #[error(
        "no method can forecast from value {origin}: some time of day has never been measured before; fill the gaps"
    )]
    Gaps {
        /// The slot of the series at which the forecast should begin.
        origin: usize,
    },
    /// Values are missing from the series, so one of the naive methods has no forecast. An
    /// evaluation compares all methods with the naive ones, and needs their forecasts.
    #[error(
        "the naive {cycle}, with which all methods are compared, cannot forecast from value {origin}: some time \
         of the {cycle} has never been measured before; fill the gaps, or forecast fewer days"
    )]
    NaiveGaps {
        /// The cycle that the naive method repeats.
        cycle: Cycle,
        /// The slot of the series at which the forecast should begin.
        origin: usize,
    },
}

/// Forecasts a series; see the [module](super). Keeps the forecasts that each method made from past
/// slots, so that another forecast a day later costs little.
#[derive(Debug)]
pub struct Forecaster<'a> {
    series: &'a Series,
    grid: Grid,
    backtest_days: usize,
    past_days_min: usize,
    methods: Vec<Method>,
    backtest: Backtest<'a>,
}

impl<'a> Forecaster<'a> {
    /// Creates a forecaster. It only checks the options; the expensive work happens in the
    /// forecasts.
    ///
    /// # Errors
    /// When an option does not fit the series.
    pub fn new(series: &'a Series, options: Options) -> Result<Self, ForecastError> {
        let grid = grid(series, &options)?;
        let methods = Method::pool();
        let days = options.backtest_days;
        let backtest = Backtest::new(series, methods.clone(), grid, days);
        Ok(Self {
            series,
            grid,
            backtest_days: days,
            past_days_min: options.past_days_min,
            methods,
            backtest,
        })
    }

    /// Forecasts the slots after the end of the series.
    ///
    /// # Errors
    /// When the series is too short, or has only gaps at some time of day.
    pub fn from_end(&mut self) -> Result<Forecast, ForecastError> {
        self.at(self.series.len())
    }

    /// Forecasts the slots from `origin` on, from the values before it.
    ///
    /// # Errors
    /// When there are too few values before `origin` or these have only gaps at some time
    /// of day, and when `origin` lies after the end of the series.
    pub fn at(&mut self, origin: usize) -> Result<Forecast, ForecastError> {
        let have = self.series.len();
        if origin > have {
            return Err(ForecastError::Beyond { origin, have });
        }
        let need = self.least();
        if origin < need {
            return Err(ForecastError::TooShort { have: origin, need });
        }
        // The intervals replay choices at past origins, and those choices look back as
        // far again.
        let Grid { day, horizon } = self.grid;
        let oldest = origin.saturating_sub(2 * (horizon + self.backtest_days * day));
        self.backtest.forget_before(oldest);

        let choice = self.backtest.choose(origin);
        let combined = self.backtest.combine(origin, &choice);
        let point = combined.ok_or(ForecastError::Gaps { origin })?;
        let percentiles = self.percentiles(origin, &choice, &point);
        Ok(Forecast {
            start_s: self.series.time_s(origin),
            step_s: self.series.step_s(),
            point,
            percentiles,
            methods: choice
                .0
                .iter()
                .map(|&method| self.methods[method])
                .collect(),
        })
    }

    /// Returns the index of the first slot of the series at which a forecast can begin. The least number of
    /// past days and the horizon lie before it: the past on which the methods are compared.
    pub(super) fn least(&self) -> usize {
        self.past_days_min * self.grid.day + self.grid.horizon
    }

    pub(super) fn grid(&self) -> Grid {
        self.grid
    }

    /// Returns each method of the pool with its forecast from slot `origin` on; `None` if the
    /// method can make none, for example because it has too few values.
    pub(super) fn each(&mut self, origin: usize) -> Vec<(Method, Option<Vec<f64>>)> {
        let methods = self.methods.iter().enumerate();
        let each = methods.map(|(index, &method)| {
            let forecast = self.backtest.forecast(origin, index);
            (method, forecast.map(<[f64]>::to_vec))
        });
        each.collect()
    }

    fn percentiles(
        &mut self,
        origin: usize,
        choice: &Choice,
        point: &[f64],
    ) -> Vec<[f64; super::intervals::PERCENTS]> {
        let day = self.grid.day;
        let replayed = self.backtest.replay(origin, choice);
        let recent = origin.saturating_sub(self.backtest_days * day)..origin;
        let mut recent: Vec<f64> = recent.filter_map(|slot| self.series.value(slot)).collect();
        let level = median(&mut recent).unwrap_or(0.0);
        let errors = Errors::of(self.series, &replayed, level, day);
        let slots = point.iter().enumerate();
        slots
            .map(|(ahead, &forecast)| errors.percentiles(ahead, forecast))
            .collect()
    }
}

/// Returns the position in `methods` of the naive method that repeats the last `cycle`; `None` if
/// it is not among them.
pub(super) fn naive(methods: impl IntoIterator<Item = Method>, cycle: Cycle) -> Option<usize> {
    methods
        .into_iter()
        .position(|method| method == Method::Naive(cycle))
}

fn grid(series: &Series, options: &Options) -> Result<Grid, ForecastError> {
    let (day_s, step_s) = (options.day_s, series.step_s());
    let day = (day_s / step_s).round();
    // Measured steps are not exact: an error of a ten thousandth of a day does no harm.
    let whole = (2.0..1e6).contains(&day) && (day * step_s - day_s).abs() <= day_s * 1e-4;
    if !whole {
        return Err(ForecastError::Day { day_s, step_s });
    }
    let horizon = (options.horizon_s / step_s).ceil();
    if !(1.0..=HORIZON_MAX).contains(&horizon) {
        return Err(ForecastError::Option {
            what: "the horizon in seconds",
            value: options.horizon_s,
            expected: "give more than 0 and at most 600,000 of the series' steps",
        });
    }
    for (what, days) in [
        ("the number of past days", options.backtest_days),
        ("the least number of past days", options.past_days_min),
    ] {
        if !(1..=BACKTEST_DAYS_MAX).contains(&days) {
            return Err(ForecastError::Option {
                what,
                value: days as f64,
                expected: "give at least 1 and at most 3660",
            });
        }
    }
    Ok(Grid {
        day: day as usize,
        horizon: horizon as usize,
    })
}
