//! Intervals for ratios of tail latencies: the bootstrap, over windows.
//!
//! Operations of one window depend on each other (a stall hits many), windows hardly do. So whole
//! windows are drawn again, with replacement, and the quantiles of all operations in the drawn
//! windows are compared. The interval holds 95% of these ratios. Draws from few windows vary too
//! little, so the distances of the ends from the measured ratio are widened to compensate. The seed
//! is fixed: the same windows give the same interval.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::counts::Pool;
use crate::number::fixed;

/// The number of resampled results from which each confidence interval is computed. With this
/// number, the ends of an interval are off by about a fortieth of its width.
const DRAWS: usize = 1000;
const SEED: u64 = 0xebb;
/// The 97.5th percentile of the standard normal distribution.
const Z95: f64 = 1.96;

/// A measured ratio, with its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// Returns the larger of `high` and 1 / `low`: the largest factor between the ratio and 1.
    pub fn farthest_from_one(&self) -> f64 {
        self.high.max(1.0 / self.low)
    }
}

/// Formats the value and its interval, with two decimals unless a precision is given.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(2);
        let [value, low, high] = [self.value, self.low, self.high].map(|it| fixed(it, places));
        write!(f, "{value} ({low} to {high})")
    }
}

/// Returns for each of the `quantiles` the ratio of its value in `beside` to that in `alone`, with
/// its 95% confidence interval. Each pool must have at least one measurement window.
pub fn ratios<const N: usize>(beside: &Pool, alone: &Pool, quantiles: [f64; N]) -> [Estimate; N] {
    let measured = divide(beside.all_us(quantiles), alone.all_us(quantiles));
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut drawn: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(DRAWS));
    for _ in 0..DRAWS {
        let ratios = divide(
            beside.quantiles_us(draw(beside.len(), &mut rng), quantiles),
            alone.quantiles_us(draw(alone.len(), &mut rng), quantiles),
        );
        for (ratio, drawn) in ratios.into_iter().zip(&mut drawn) {
            drawn.push(ratio.ln());
        }
    }
    let few = beside.len().min(alone.len()) as f64;
    let widened = widening(few);
    std::array::from_fn(|which| {
        let value = measured[which].ln();
        drawn[which].sort_by(f64::total_cmp);
        let end = |part: f64| {
            let end = drawn[which][((DRAWS - 1) as f64 * part).round() as usize];
            (value + (end - value) * widened).exp()
        };
        Estimate {
            value: measured[which],
            low: end(0.025),
            high: end(0.975),
        }
    })
}

/// Returns the ratio of the p99 latency in `beside` to that in `alone`, as [`ratios`] does.
pub fn p99_ratio(beside: &Pool, alone: &Pool) -> Estimate {
    let [p99] = ratios(beside, alone, [0.99]);
    p99
}

/// Returns the number of windows that each of two conditions needs, so that the confidence interval
/// of the ratio of their p99 extends at most `half_width` (such as 0.05) to either side. The
/// estimate is based on `so_far`, at least two windows of one condition.
pub fn windows_needed(so_far: &Pool, half_width: f64) -> u32 {
    let quantiles = [0.99];
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut logs = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let [p99_us] = so_far.quantiles_us(draw(so_far.len(), &mut rng), quantiles);
        logs.push(p99_us.ln());
    }
    let mean = logs.iter().sum::<f64>() / DRAWS as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / DRAWS as f64;
    // The variance for one window, as if a p99 were a mean. The ratio of two conditions has twice
    // that.
    let windows = so_far.len() as f64;
    let of_one = variance * widening(windows).powi(2) * windows;
    let needed = 2.0 * of_one * (Z95 / (1.0 + half_width).ln()).powi(2);
    needed.ceil().max(2.0) as u32
}

/// Returns the factor by which the spread of resampled results is multiplied: resampling from only
/// a few windows underestimates it.
fn widening(windows: f64) -> f64 {
    (windows / (windows - 1.0).max(0.5)).sqrt()
}

fn draw(windows: usize, rng: &mut ChaCha8Rng) -> impl Iterator<Item = usize> {
    (0..windows).map(move |_| rng.random_range(0..windows))
}

fn divide<const N: usize>(above: [f64; N], below: [f64; N]) -> [f64; N] {
    std::array::from_fn(|which| above[which] / below[which])
}

#[cfg(test)]
mod tests;
