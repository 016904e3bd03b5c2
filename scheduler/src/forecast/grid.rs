//! The length of a day and of a forecast, counted in steps of a series.

/// The lengths of a day and of the horizon, in steps of the series; both at least 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) day: usize,
    pub(super) horizon: usize,
}

impl Grid {
    /// Converts `days` into steps, rounded.
    pub(super) fn steps(self, days: f64) -> usize {
        (days * self.day as f64).round() as usize
    }
}
