//! The forecasting methods from which a [`Forecaster`](super::Forecaster) chooses.

use serde::Serialize;
use std::fmt;

/// The period after which a load may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cycle {
    /// A period of one day.
    Day,
    /// A period of seven days.
    Week,
}

impl Cycle {
    /// Returns the length of the cycle in days.
    #[must_use]
    pub fn days(self) -> usize {
        match self {
            Self::Day => 1,
            Self::Week => 7,
        }
    }
}

/// A correction of a profile for a burst or lull that is still going on when the forecast begins.
/// The correction decays over the forecast.
///
/// Let r be the weighted median of measured over expected load in the window before the forecast,
/// clamped to 1/3 and 3. The forecast h days ahead is multiplied by `r ^ exp(-h / decay)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Length in days of the window before the forecast in which the measured load is compared with
    /// the load that the profile (the median of past cycles) expects; at most one day.
    pub window_days: f64,
    /// Decay time of the correction, in days: this many days ahead, the exponent in the
    /// formula of [`Level`] is 1/e.
    pub decay_days: f64,
}

/// A forecasting method with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Forecasts the value at the same time in the last cycle in which that time was measured.
    Naive(Cycle),
    /// Forecasts a flat line: the median of the values in a window that ends where the forecast
    /// begins.
    Recent {
        /// Length in days of the window before the forecast whose median is taken. The window has
        /// at least one step of the series.
        window_days: f64,
    },
    /// Forecasts the median of the values at, or around, the same time of several cycles.
    Profile {
        /// Period of the profile.
        cycle: Cycle,
        /// Number of past cycles from which the median takes values.
        cycles: usize,
        /// Distance in days, before and after the same time in each cycle, up to which
        /// values are included.
        around_days: f64,
        /// The correction for a burst or lull that is still going on; `None` for the plain profile.
        level: Option<Level>,
    },
    /// Seasonal and trend decomposition by loess with the periods day and week; exponential
    /// smoothing extrapolates the trend. Forecasters try it only with the crate's feature `mstl`.
    MstlEts {
        /// True to forecast ln(1 + value / median) instead of the value: for loads whose
        /// bursts are many times their usual level.
        log: bool,
    },
}

/// Values of [`Level::window_days`] that are tried: a quarter of a day, a day.
const WINDOWS_DAYS: [f64; 2] = [0.25, 1.0];
/// Values of [`Level::decay_days`] that are tried: after a day the correction is nearly gone (0.5)
/// or still fading (1.5).
const DECAYS_DAYS: [f64; 2] = [0.5, 1.5];
/// Values of [`Method::Profile`]'s `around_days` that are tried, the half-width of the window
/// around a time of day: zero, half an hour, an hour.
const AROUND_DAYS: [f64; 3] = [0.0, 1.0 / 48.0, 1.0 / 24.0];
const WEEKS: [usize; 4] = [3, 4, 6, 8];
const DAYS: [usize; 3] = [5, 7, 14];

impl Method {
    /// Returns all methods that a forecaster tries, simple ones first: among equal scores the first
    /// wins.
    ///
    /// The parameters are round numbers that cover the usual loads; none was fitted to a trace. The
    /// backtest finds the ones that suit a series.
    #[must_use]
    pub fn pool() -> Vec<Self> {
        let mut pool = vec![Self::Naive(Cycle::Day), Self::Naive(Cycle::Week)];
        pool.extend([0.0, 0.25, 1.0].map(|window_days| Self::Recent { window_days }));
        if cfg!(feature = "mstl") {
            pool.extend([false, true].map(|log| Self::MstlEts { log }));
        }
        let mut levels = vec![None];
        for window_days in WINDOWS_DAYS {
            levels.extend(DECAYS_DAYS.map(|decay_days| {
                Some(Level {
                    window_days,
                    decay_days,
                })
            }));
        }
        let weeks = WEEKS.map(|cycles| (Cycle::Week, cycles));
        let days = DAYS.map(|cycles| (Cycle::Day, cycles));
        for (cycle, cycles) in weeks.into_iter().chain(days) {
            for around_days in AROUND_DAYS {
                pool.extend(levels.iter().map(|&level| Self::Profile {
                    cycle,
                    cycles,
                    around_days,
                    level,
                }));
            }
        }
        pool
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Day => "day",
            Self::Week => "week",
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Naive(cycle) => write!(f, "naive {cycle}"),
            Self::Recent { window_days: 0.0 } => f.write_str("last value"),
            Self::Recent { window_days } => write!(f, "last {} h", hours(*window_days)),
            Self::Profile {
                cycle,
                cycles,
                around_days,
                level,
            } => {
                write!(f, "{cycles} {cycle}s")?;
                if *around_days > 0.0 {
                    write!(f, " +-{} h", hours(*around_days))?;
                }
                if let Some(level) = level {
                    let (window, decay) = (hours(level.window_days), hours(level.decay_days));
                    write!(f, ", level {window} h / {decay} h")?;
                }
                Ok(())
            }
            Self::MstlEts { log: false } => f.write_str("MSTL+ETS"),
            Self::MstlEts { log: true } => f.write_str("MSTL+ETS of logs"),
        }
    }
}

fn hours(days: f64) -> f64 {
    days * 24.0
}
