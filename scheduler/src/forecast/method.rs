//! The ways of forecasting that a [`Forecaster`](super::Forecaster) chooses from.

use serde::Serialize;
use std::fmt;

/// What a load may repeat after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cycle {
    /// One day.
    Day,
    /// Seven days.
    Week,
}

impl Cycle {
    /// Its length in days.
    #[must_use]
    pub fn days(self) -> usize {
        match self {
            Self::Day => 1,
            Self::Week => 7,
        }
    }
}

/// A burst or lull that is still going on at the origin, and how it passes.
///
/// With r the weighted median of measured over expected in the window before the
/// origin, kept within 1/3 and 3, a forecast is multiplied by
/// `r ^ exp(-h / decay)` at h days ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Length of the window in days.
    pub window_days: f64,
    /// Days after which the exponent has fallen to 1/e.
    pub decay_days: f64,
}

/// One way of forecasting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The same time in the cycle before.
    Naive(Cycle),
    /// A flat line: the median of what was measured last.
    Recent {
        /// How much of it, in days; at least one step is taken.
        window_days: f64,
    },
    /// The median over the same time of several cycles, and around it.
    Profile {
        /// What the load repeats after.
        cycle: Cycle,
        /// How many cycles back.
        cycles: usize,
        /// Also the values this far to either side, in days.
        around_days: f64,
        /// The burst correction, if any.
        level: Option<Level>,
    },
    /// Seasonal and trend decomposition by loess with a day and a week, its trend
    /// carried on by exponential smoothing. In the pool with the feature `mstl`.
    MstlEts {
        /// Of ln(1 + value / median) instead of the value: for loads whose bursts
        /// are many times their usual level.
        log: bool,
    },
}

/// Of the burst correction, in days: the last quarter, the last day.
const WINDOWS_DAYS: [f64; 2] = [0.25, 1.0];
/// Of the burst correction, in days: gone by tomorrow, or only fading then.
const DECAYS_DAYS: [f64; 2] = [0.5, 1.5];
/// How far around a time of day, in days: not at all, half an hour, an hour.
const AROUND_DAYS: [f64; 3] = [0.0, 1.0 / 48.0, 1.0 / 24.0];
const WEEKS: [usize; 4] = [3, 4, 6, 8];
const DAYS: [usize; 3] = [5, 7, 14];

impl Method {
    /// All of them, simple ones first: among equals the first is taken.
    ///
    /// The values are round and cover what a load may do; none was fitted to a
    /// trace. What suits a series is for its backtest to say.
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
