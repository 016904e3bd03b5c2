//! Profiles of past cycles: the medians at the same time, and the burst correction.

use super::method::Level;
use std::ops::Range;

/// Largest factor by which the burst correction may raise or lower a forecast.
const LEVEL_MAX: f64 = 3.0;

/// Parameters of a profile, the typical load over a cycle such as a day. Lengths are in steps
/// of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Profile {
    /// Length of a cycle in steps; at least 1.
    pub(super) cycle: usize,
    /// The number of past cycles from which the median takes values.
    pub(super) cycles: usize,
    /// The median at a time of day includes, from each past cycle, this many values before and
    /// after the one at the same time.
    pub(super) around: usize,
}

impl Profile {
    /// Returns the typical value at each of `slots`, which may lie within `past` or after it. It is
    /// the median of the values one cycle before the slot, two cycles before it and so on, each
    /// with the values up to `self.around` steps before and after it. The value of the slot itself
    /// is not used.
    ///
    /// The median is over the last `self.cycles` cycles that have values. A cycle does not count if
    /// its values are all missing (NaN), or lie after the end of `past`.
    ///
    /// Returns `None` if no value is found for some slot, or if `past` is shorter than
    /// `self.cycles` cycles.
    pub(super) fn at(self, past: &[f64], slots: Range<usize>) -> Option<Vec<f64>> {
        if past.len() < self.cycles * self.cycle {
            return None;
        }
        let mut sample = Vec::with_capacity(self.cycles * (2 * self.around + 1));
        slots
            .map(|slot| self.median_at(past, slot, &mut sample))
            .collect()
    }

    fn median_at(self, past: &[f64], slot: usize, sample: &mut Vec<f64>) -> Option<f64> {
        sample.clear();
        let beyond = (slot + 1).saturating_sub(past.len());
        let back = beyond.div_ceil(self.cycle).max(1) * self.cycle;
        let mut same = slot.checked_sub(back);
        let mut found = 0;
        while let Some(middle) = same {
            let from = middle.saturating_sub(self.around);
            let until = (middle + self.around + 1).min(past.len());
            let before = sample.len();
            sample.extend(past[from..until].iter().filter(|value| !value.is_nan()));
            found += usize::from(sample.len() > before);
            if found == self.cycles {
                break;
            }
            same = middle.checked_sub(self.cycle);
        }
        median(sample)
    }
}

/// Returns the middle value, or the mean of the two in the middle; `None` without values. Reorders
/// `values`.
pub fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, &mut high, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return Some(high);
    }
    let low = below.iter().copied().max_by(f64::total_cmp)?;
    Some((low + high) / 2.0)
}

/// Returns the ratio of the load to its profile: the median of measured / expected, each ratio
/// weighted by its expected load, clamped to 1/3 and 3. It is 1 if no slot has both a measured
/// value and an expected load above 0.
///
/// `expected` ends where `past` ends.
pub(super) fn level_of(past: &[f64], expected: &[f64]) -> f64 {
    let measured = &past[past.len() - expected.len()..];
    let known = measured.iter().zip(expected);
    let known = known.filter(|(measured, expected)| !measured.is_nan() && **expected > 0.0);
    let mut ratios: Vec<(f64, f64)> = known.map(|(m, e)| (m / e, *e)).collect();
    ratios.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = ratios.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (ratio, weight) in ratios {
        below += weight;
        if below >= total / 2.0 {
            return ratio.clamp(1.0 / LEVEL_MAX, LEVEL_MAX);
        }
    }
    1.0
}

/// Multiplies the forecast by `level`, which fades with the distance from the start of the
/// forecast; see [`Level`]. `day` is the length of a day in steps.
pub(super) fn corrected(forecast: &[f64], level: f64, day: usize, how: Level) -> Vec<f64> {
    let fading = |ahead: usize| (-(ahead as f64) / (day as f64 * how.decay_days)).exp();
    let slots = forecast.iter().enumerate();
    slots
        .map(|(ahead, value)| value * level.powf(fading(ahead)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f64 = f64::NAN;

    fn profile(cycles: usize, around: usize) -> Profile {
        Profile {
            cycle: 4,
            cycles,
            around,
        }
    }

    #[test]
    fn medians_of_the_same_time_skip_missing_values() {
        // Three cycles of four; the second slot of the last one is missing.
        let past = [
            1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, NONE, 11.0, 12.0,
        ];
        let ahead = |cycles| profile(cycles, 0).at(&past, 12..16);
        assert_eq!(ahead(1), Some(vec![9.0, 6.0, 11.0, 12.0]));
        assert_eq!(ahead(2), Some(vec![7.0, 4.0, 9.0, 10.0]));
        // The values around the first slot: 8 and 9 of the last cycle, and 4, 5 and 6 of the
        // cycle before.
        assert_eq!(profile(2, 1).at(&past, 12..13), Some(vec![6.0]));
        assert_eq!(ahead(4), None, "there are three cycles");
    }

    #[test]
    fn beyond_a_cycle_ahead_the_last_known_cycle_repeats() {
        let past = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(profile(1, 0).at(&past, 8..12), Some(past.to_vec()));
    }

    #[test]
    fn the_profile_of_a_past_slot_does_not_use_its_own_value() {
        let past = [1.0, 2.0, 3.0, 4.0, 50.0, 60.0, 70.0, 80.0];
        let first = past[..4].to_vec();
        assert_eq!(profile(1, 0).at(&past, 4..8), Some(first));
        assert_eq!(profile(1, 0).at(&past, 0..4), None, "nothing lies before");
    }

    #[test]
    fn the_level_is_a_weighted_median_within_bounds() {
        let past = [NONE, 2.0, 3.0, 12.0];
        // Ratios 1.5, 2 and 6 with weights 2, 1 and 2.
        assert_eq!(level_of(&past, &[1.0, 1.0, 2.0, 2.0]), 2.0);
        assert_eq!(level_of(&past, &[0.1; 4]), LEVEL_MAX);
        assert_eq!(level_of(&past, &[0.0; 4]), 1.0, "nothing was expected");
        let how = Level {
            window_days: 1.0,
            decay_days: 1.0,
        };
        let faded = corrected(&[10.0; 3], 2.0, 1, how);
        assert_eq!(faded[0], 20.0);
        assert!((faded[1] - 10.0 * 2f64.powf((-1f64).exp())).abs() < 1e-12);
        assert!(faded[2] < faded[1] && faded[2] > 10.0);
    }
}
