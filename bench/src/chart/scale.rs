//! Scales from values to pixels, and round values on an axis.

use crate::number::fixed;

/// A scale from the values of an axis to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The values at both ends. A value beyond an end is drawn at that end.
    pub values: (f64, f64),
    /// The positions of both ends, in pixels.
    pub pixels: (f64, f64),
    /// Whether the scale is logarithmic; then both ends in `values` must be positive.
    pub is_log: bool,
}

impl Scale {
    /// Returns the position of a value, in pixels. NaN is drawn at the first end. If both ends have
    /// the same value, larger values are drawn at the second end, and all others at the first.
    pub fn at(&self, value: f64) -> f64 {
        let scaled = |value: f64| {
            if self.is_log {
                value.max(1e-9).log10()
            } else {
                value
            }
        };
        let (low, high) = (scaled(self.values.0), scaled(self.values.1));
        let part = ((scaled(value) - low) / (high - low)).clamp(0.0, 1.0);
        let part = if part.is_nan() { 0.0 } else { part };
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }
}

/// Returns the step with which about `count` round values cover an axis of this length: 1, 2 or 5
/// times a power of ten. Returns 1 if the length is not positive and finite.
pub(super) fn round_step(length: f64, count: f64) -> f64 {
    // Also false for NaN.
    let is_length = length.is_finite() && length > 0.0;
    if !is_length {
        return 1.0;
    }
    let rough = length / count.max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999);
    step.unwrap_or(10.0 * power)
}

/// Returns about `count` round values between the ends, both included if they are round. Returns
/// none if an end is not finite.
pub fn ticks((low, high): (f64, f64), count: usize) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite()) {
        return Vec::new();
    }
    let step = round_step(high - low, count as f64);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|tick| tick as f64 * step).collect()
}

/// Formats a number with two decimals at most, without zeros at their end; NaN and infinities
/// as "-".
pub fn short(value: f64) -> String {
    let text = fixed(value, 2);
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').into();
    }
    text
}

/// Formats a number with as many decimals as steps of `step` need; `step` is 1, 2 or 5 times a power
/// of ten.
pub fn label(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_ends() {
        assert_eq!(ticks((0.0, 100.0), 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks((-2.0, 1.0), 3), [-2.0, -1.0, 0.0, 1.0]);
        assert_eq!(ticks((0.0, 6130.0), 4), [0.0, 2000.0, 4000.0, 6000.0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(20.0), "20");
        assert_eq!(short(-0.0), "0");
        assert_eq!(short(f64::NAN), "-");
        for (value, step, text) in [
            (5000.0, 5000.0, "5000"),
            (0.2, 0.2, "0.2"),
            (0.05, 0.05, "0.05"),
        ] {
            assert_eq!(label(value, step), text);
        }
    }

    #[test]
    fn values_beyond_the_ends_are_drawn_at_them() {
        let scale = Scale {
            values: (1.0, 1000.0),
            pixels: (200.0, 50.0),
            is_log: true,
        };
        let at = [0.0, 1.0, 10.0, 1000.0, 1e9].map(|value| scale.at(value).round());
        assert_eq!(at, [200.0, 200.0, 150.0, 50.0, 50.0]);
        let scale = Scale {
            is_log: false,
            ..scale
        };
        assert_eq!(scale.at(500.5), 125.0);
    }

    #[test]
    fn empty_axes_and_nan_have_finite_places() {
        let scale = |values| Scale {
            values,
            pixels: (200.0, 50.0),
            is_log: false,
        };
        for (values, value) in [
            ((3.0, 3.0), 3.0),
            ((0.0, f64::INFINITY), 1.0),
            ((0.0, f64::NAN), 1.0),
            ((0.0, 1.0), f64::NAN),
        ] {
            assert!(scale(values).at(value).is_finite(), "{values:?} {value}");
        }
        assert_eq!(ticks((3.0, 3.0), 5), [3.0]);
        assert!(ticks((0.0, f64::INFINITY), 5).is_empty());
        assert!(ticks((f64::NAN, 1.0), 5).is_empty());
    }
}
