//! A forecast: the load over a horizon, with quantiles for its uncertainty.

use super::intervals::PERCENTS;
use super::method::Method;
use crate::availability::{Availability, AvailabilityError, Step};
use thiserror::Error;

/// The forecast load over a horizon, in the unit of the series.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    pub(super) start_s: f64,
    pub(super) step_s: f64,
    pub(super) point: Vec<f64>,
    /// The quantiles of each slot at 1% to 99%, ascending.
    pub(super) percentiles: Vec<[f64; PERCENTS]>,
    pub(super) methods: Vec<Method>,
}

/// The reason why [`Forecast::quantile`] or [`Forecast::availability`] fails.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The requested quantile is outside of 1% to 99%, the range that a forecast has.
    #[error("a quantile is between 0.01 and 0.99, got {0}")]
    Quantile(f64),
    /// The capacity, or the CPU that a unit of load takes, is negative or not finite.
    #[error(transparent)]
    Availability(#[from] AvailabilityError),
}

impl Forecast {
    /// Returns the start of the first slot (the time span of one forecast value), in seconds on
    /// the clock of the series.
    #[must_use]
    pub fn start_s(&self) -> f64 {
        self.start_s
    }

    /// Returns the length, in seconds, of a slot: the time span of one forecast value.
    #[must_use]
    pub fn step_s(&self) -> f64 {
        self.step_s
    }

    /// Returns the point forecast for each slot; not negative. It estimates the median, because
    /// methods are chosen for their absolute error.
    #[must_use]
    pub fn point(&self) -> &[f64] {
        &self.point
    }

    /// Returns the methods whose mean is the point forecast, best first; at least one.
    #[must_use]
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns the value that the load of a slot stays below with probability `q`, for each slot
    /// on its own. Not negative, and never smaller for a larger `q`.
    ///
    /// # Errors
    /// When `q` is not between 0.01 and 0.99.
    pub fn quantile(&self, q: f64) -> Result<Vec<f64>, PlanError> {
        if !(0.01..=0.99).contains(&q) {
            return Err(PlanError::Quantile(q));
        }
        let place = (q * 100.0 - 1.0).clamp(0.0, (PERCENTS - 1) as f64);
        let low = place.floor() as usize;
        let high = (low + 1).min(PERCENTS - 1);
        let part = place - low as f64;
        let slots = self.percentiles.iter();
        Ok(slots
            .map(|slot| slot[low] + part * (slot[high] - slot[low]))
            .collect())
    }

    /// Returns the capacity that the forecast load leaves to analytics, f(t): `capacity_hundredths`
    /// minus the CPU that the load takes, if each unit of load takes `hundredths_per_unit`
    /// hundredths of a core. In each slot at least this much is left with probability `confidence`;
    /// it is zero where the load may take everything. With a confidence of 0.5, more and less are
    /// equally likely to be left; a higher confidence gives less capacity. After the horizon, the
    /// value of the last slot holds for ever, so the horizon should be as long as the plan.
    ///
    /// # Errors
    /// When `confidence` is not between 0.01 and 0.99, or one of the other two
    /// numbers is negative or not finite.
    pub fn availability(
        &self,
        capacity_hundredths: f64,
        hundredths_per_unit: f64,
        confidence: f64,
    ) -> Result<Availability, PlanError> {
        // Each number is checked on its own, so that the error contains the
        // wrong one.
        Availability::constant(capacity_hundredths)?;
        Availability::constant(hundredths_per_unit)?;
        let load = self.quantile(confidence)?;
        let steps = load.iter().enumerate().map(|(slot, load)| Step {
            from_s: self.start_s + slot as f64 * self.step_s,
            hundredths: (capacity_hundredths - load * hundredths_per_unit).max(0.0),
        });
        Ok(Availability::steps(steps.collect())?)
    }
}
