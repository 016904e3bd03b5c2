//! Lets the pool forecast the past, and makes a forecast of what did best.

use super::backtest::{Backtest, Choice};
use super::grid::Grid;
use super::intervals::Errors;
use super::method::{Cycle, Method};
use super::predicted::Forecast;
use super::profile::median;
use super::series::Series;
use crate::availability::DAY_S;
use thiserror::Error;

/// Slots of a horizon beyond which a forecast is refused: a year of minutes.
const HORIZON_MAX: f64 = 600_000.0;

/// Past days beyond which a forecast is refused: ten years.
const BACKTEST_DAYS_MAX: usize = 3_660;

/// How to forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Length of a day in seconds; a whole number of the series' steps, at least
    /// two. A week is seven.
    pub day_s: f64,
    /// How far to forecast, in seconds; rounded up to a step.
    pub horizon_s: f64,
    /// How many past days the methods are tried on; 1 to 3,660.
    pub backtest_days: usize,
}

impl Default for Options {
    /// A day of 24 hours ahead, by the mean of up to ten methods that did best on
    /// the last four weeks.
    fn default() -> Self {
        Self {
            day_s: DAY_S,
            horizon_s: DAY_S,
            backtest_days: 28,
        }
    }
}

/// Why there is no forecast.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ForecastError {
    /// An option that makes no sense with the series.
    #[error("{what} is {value}: {expected}")]
    Option {
        /// Which.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// A day that is not made of the series' steps.
    #[error(
        "a day of {day_s} s is not a whole number, at least two, of the series' steps of {step_s} s: \
         bring the series to even steps that divide a day"
    )]
    Day {
        /// The day in seconds.
        day_s: f64,
        /// The series' step in seconds.
        step_s: f64,
    },
    /// Too few values before the origin.
    #[error("{have} values are too few: two days and the horizon before the origin make {need}")]
    TooShort {
        /// How many there are.
        have: usize,
        /// How many it takes.
        need: usize,
    },
    /// An origin after the end of the series.
    #[error("the series has {have} values, none up to {origin}: forecast from its end")]
    Beyond {
        /// The origin that was asked for.
        origin: usize,
        /// The length of the series.
        have: usize,
    },
    /// Nothing to measure errors against.
    #[error(
        "the {scored} values to compare with add up to nothing: errors cannot be told relative to them"
    )]
    NoLoad {
        /// How many values there are in the days that were forecast.
        scored: usize,
    },
    /// Only gaps where a forecast would begin from.
    #[error("no method can forecast from value {origin}: some time of day has never been measured")]
    Gaps {
        /// The origin.
        origin: usize,
    },
}

/// Forecasts a series; see the module. Keeps what the methods said at past
/// origins, so that a second forecast a day later costs little.
#[derive(Debug)]
pub struct Forecaster<'a> {
    series: &'a Series,
    grid: Grid,
    backtest_days: usize,
    methods: Vec<Method>,
    backtest: Backtest<'a>,
}

impl<'a> Forecaster<'a> {
    /// Looks at the options only; the work is in the forecasts.
    ///
    /// # Errors
    /// When an option makes no sense with the series.
    pub fn new(series: &'a Series, options: Options) -> Result<Self, ForecastError> {
        let grid = grid(series, &options)?;
        let methods = Method::pool();
        let days = options.backtest_days;
        let backtest = Backtest::new(series, methods.clone(), grid, days);
        Ok(Self {
            series,
            grid,
            backtest_days: days,
            methods,
            backtest,
        })
    }

    /// The forecast from the end of the series on.
    ///
    /// # Errors
    /// When the series is too short, or has only gaps at some time of day.
    pub fn from_end(&mut self) -> Result<Forecast, ForecastError> {
        self.at(self.series.len())
    }

    /// The forecast from slot `origin` on, from the values before it.
    ///
    /// # Errors
    /// When there are too few of these, or they have only gaps at some time of
    /// day.
    pub fn at(&mut self, origin: usize) -> Result<Forecast, ForecastError> {
        let have = self.series.len();
        if origin > have {
            return Err(ForecastError::Beyond { origin, have });
        }
        let need = self.least();
        if origin < need {
            return Err(ForecastError::TooShort { have: origin, need });
        }
        // A replayed choice looks back as far again.
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

    /// The first slot that can be forecast from.
    pub(super) fn least(&self) -> usize {
        2 * self.grid.day + self.grid.horizon
    }

    pub(super) fn grid(&self) -> Grid {
        self.grid
    }

    /// What each method says at `origin`, beside its name; `None` where it has
    /// too little to go by.
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
        let replayed = self.backtest.replayed(origin, choice);
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

/// Position of the naive forecast of `cycle` in the pool.
pub(super) fn naive(methods: impl IntoIterator<Item = Method>, cycle: Cycle) -> Option<usize> {
    methods
        .into_iter()
        .position(|method| method == Method::Naive(cycle))
}

fn grid(series: &Series, options: &Options) -> Result<Grid, ForecastError> {
    let (day_s, step_s) = (options.day_s, series.step_s());
    let day = (day_s / step_s).round();
    // Steps of clocks are not exact: a ten thousandth of a day does no harm.
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
    let days = options.backtest_days;
    if !(1..=BACKTEST_DAYS_MAX).contains(&days) {
        return Err(ForecastError::Option {
            what: "the number of past days",
            value: days as f64,
            expected: "give at least 1 and at most 3660",
        });
    }
    Ok(Grid {
        day: day as usize,
        horizon: horizon as usize,
    })
}
