//! One forecast per method, from the values before an origin.

use super::grid::Grid;
use super::method::{Level, Method};
use super::profile::{Profile, corrected, level_of, median};

/// Returns the forecasts of the `grid.horizon` slots after `past`, in the order of `methods`; `None`
/// for a method that has too few values, or whose forecast overflows.
pub(super) fn forecasts(methods: &[Method], past: &[f64], grid: Grid) -> Vec<Option<Vec<f64>>> {
    let mut profiles = Profiles {
        past,
        grid,
        known: Vec::new(),
    };
    let each = methods.iter().map(|method| profiles.forecast(*method));
    // Sums of large values may overflow.
    each.map(|forecast| forecast.filter(|values| values.iter().all(|value| value.is_finite())))
        .collect()
}

/// Computes forecasts and caches profiles, the median curves of past cycles. Methods
/// that differ only in the burst correction ([`Level`]) share a profile.
struct Profiles<'a> {
    past: &'a [f64],
    grid: Grid,
    known: Vec<(Profile, Option<Shape>)>,
}

/// A profile, the medians of the load over past cycles, before and after the slot at which the
/// forecast begins.
#[derive(Clone)]
struct Shape {
    /// The median for each slot of the last day before the forecast (or less, at the start of a
    /// series); empty if some slot has no earlier values to take a median of.
    before: Vec<f64>,
    after: Vec<f64>,
}

impl Profiles<'_> {
    fn forecast(&mut self, method: Method) -> Option<Vec<f64>> {
        let Grid { day, horizon } = self.grid;
        match method {
            Method::Naive(cycle) => {
                let naive = Profile {
                    cycle: cycle.days() * day,
                    cycles: 1,
                    around: 0,
                };
                naive.at(self.past, self.ahead())
            }
            Method::Recent { window_days } => {
                let window = self.grid.steps(window_days).max(1);
                let last = &self.past[self.past.len().checked_sub(window)?..];
                let mut last: Vec<f64> = last.iter().copied().filter(|v| !v.is_nan()).collect();
                Some(vec![median(&mut last)?; horizon])
            }
            Method::Profile {
                cycle,
                cycles,
                around_days,
                level,
            } => {
                let shape = self.shape(Profile {
                    cycle: cycle.days() * day,
                    cycles,
                    around: self.grid.steps(around_days),
                })?;
                match level {
                    None => Some(shape.after),
                    Some(level) => self.corrected(&shape, level),
                }
            }
            #[cfg(feature = "mstl")]
            Method::MstlEts { log } => super::mstl::forecast(self.past, self.grid, log),
            #[cfg(not(feature = "mstl"))]
            Method::MstlEts { .. } => None,
        }
    }

    fn ahead(&self) -> std::ops::Range<usize> {
        self.past.len()..self.past.len() + self.grid.horizon
    }

    fn shape(&mut self, profile: Profile) -> Option<Shape> {
        if let Some((_, shape)) = self.known.iter().find(|(known, _)| *known == profile) {
            return shape.clone();
        }
        let origin = self.past.len();
        let before = origin.saturating_sub(self.grid.day)..origin;
        let shape = profile.at(self.past, self.ahead()).map(|after| Shape {
            before: profile.at(self.past, before).unwrap_or_default(),
            after,
        });
        self.known.push((profile, shape.clone()));
        shape
    }

    fn corrected(&self, shape: &Shape, how: Level) -> Option<Vec<f64>> {
        let window = self.grid.steps(how.window_days).max(1);
        let expected = &shape.before[shape.before.len().checked_sub(window)?..];
        let level = level_of(self.past, expected);
        Some(corrected(&shape.after, level, self.grid.day, how))
    }
}
