//! The forecast by which policies plan, as a setting.

use serde::{Deserialize, Serialize};

/// The source of the forecast by which policies plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForecastSource {
    /// The load is recorded, and a forecast is learned from the record.
    Learn,
    /// There is no forecast: policies plan by the mean of the last ten minutes.
    Off,
}
