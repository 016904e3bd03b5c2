//! Forecasts of a measured load: f(t) with calibrated intervals.
//!
//! ```text
//!   CSV ─> Series ─> Forecaster ──┬─> pool      one forecast per method
//!                        │        ├─> backtest  errors of each method on past days
//!                        │        └─> intervals quantiles of the choice's errors
//!                        └─> Forecast ─> Availability, at a confidence
//! ```
//!
//! No method wins on every series, and a wrong period is ruinous. So a [`Forecaster`]
//! backtests a pool of simple methods: each forecasts past days from the values before them,
//! and those with the smallest errors are combined. The intervals do not come from a model:
//! they are quantiles of the errors of that combination on the past days (split conformal
//! prediction).
//!
//! Invariants:
//!
//! - A forecast for an origin is a function of the values before it.
//! - Values, forecasts and quantiles are finite and not negative; quantiles do
//!   not cross.
//! - The module has no clock, no randomness and no I/O.
//!
//! ```
//! use ebb_scheduler::forecast::{Forecaster, Options, Series};
//!
//! // Four weeks of hours with a peak at noon.
//! let load = |hour: usize| 50.0 - 40.0 * (hour as f64 / 24.0 * std::f64::consts::TAU).cos();
//! let series = Series::new(0.0, 3600.0, (0..28 * 24).map(|h| Some(load(h))).collect())?;
//! let tomorrow = Forecaster::new(&series, Options::default())?.from_end()?;
//!
//! assert!((tomorrow.point()[12] - 90.0).abs() < 1e-9);
//! // What a machine of 100 hundredths has left, with 90% confidence in each hour.
//! let left = tomorrow.availability(100.0, 1.0, 0.9)?;
//! assert!((left.at(tomorrow.start_s() + 12.5 * 3600.0) - 10.0).abs() < 1e-9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backtest;
mod csv;
mod evaluation;
mod forecaster;
mod grid;
mod intervals;
mod method;
#[cfg(feature = "mstl")]
mod mstl;
mod pool;
mod predicted;
mod profile;
mod series;

#[cfg(test)]
mod tests;

pub use csv::{CsvError, CsvProblem};
pub use evaluation::{Coverage, Evaluation, MethodScore, Predicted, days_to_evaluate, evaluate};
pub use forecaster::{ForecastError, Forecaster, Options};
pub use method::{Cycle, Level, Method};
pub use predicted::{Forecast, PlanError};
pub use profile::median;
pub use series::{Point, Series, SeriesError};
