//! A forecast: a load over the time to come, and how sure that is.

use super::intervals::PERCENTS;
use super::method::Method;
use crate::availability::{Availability, AvailabilityError, Step};
use thiserror::Error;

/// The load over a horizon, in the unit of its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    pub(super) start_s: f64,
    pub(super) step_s: f64,
    pub(super) point: Vec<f64>,
    /// Per slot, at 1% to 99%, ascending.
    pub(super) percentiles: Vec<[f64; PERCENTS]>,
    pub(super) methods: Vec<Method>,
}

/// Why a forecast cannot be read so.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A quantile outside of what is known.
    #[error("a quantile is between 0.01 and 0.99, got {0}")]
    Quantile(f64),
    /// Capacity and load make no availability.
    #[error(transparent)]
    Availability(#[from] AvailabilityError),
}

impl Forecast {
    /// When it begins, in seconds on the clock of its series.
    #[must_use]
    pub fn start_s(&self) -> f64 {
        self.start_s
    }

    /// Length of a slot in seconds.
    #[must_use]
    pub fn step_s(&self) -> f64 {
        self.step_s
    }

    /// The load per slot; not negative. The value to bet on: it was chosen for
    /// the smallest absolute error.
    #[must_use]
    pub fn point(&self) -> &[f64] {
        &self.point
    }

    /// The methods whose mean the point is, best first; at least one.
    #[must_use]
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Per slot, what the load stays below with probability `q`, each slot for
    /// itself. Not negative, and not falling in `q`.
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

    /// f(t): of `capacity_hundredths` what this load leaves, at
    /// `hundredths_per_unit` of a core for a unit of load, with `confidence` in
    /// each slot; zero where the load may take all. At 0.5 as much is left as
    /// not; above, it is planned with less. After the horizon the last slot
    /// holds for ever: forecast as far as is planned.
    ///
    /// # Errors
    /// When `confidence` is not between 0.01 and 0.99, or the other two are
    /// negative or not finite.
    pub fn availability(
        &self,
        capacity_hundredths: f64,
        hundredths_per_unit: f64,
        confidence: f64,
    ) -> Result<Availability, PlanError> {
        // Both alone, so that an error tells which.
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
