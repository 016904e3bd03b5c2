//! Medians, spreads and ratios over several rounds.

use serde::Serialize;

/// The values of one metric of one engine over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of values, the mean of the two in the middle.
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Computes the spread; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self { median, min, max })
    }
}

/// Returns whether higher values of a metric are better. The name ends with the unit: higher is
/// better for rates, lower for times, bytes and amplifications.
pub fn more_is_better(metric: &str) -> bool {
    metric.ends_with("_per_s") || metric.ends_with("_per_cpu_s")
}

/// The best of several values of a metric; `None` without any.
pub fn best(metric: &str, values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(if more_is_better(metric) {
        f64::max
    } else {
        f64::min
    })
}

/// Returns `value` / `base`; `None` if that is not finite.
pub fn ratio(value: f64, base: f64) -> Option<f64> {
    let ratio = value / base;
    (base != 0.0 && ratio.is_finite()).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        let spread = |median, min, max| Some(Spread { median, min, max });
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), spread(2.0, 1.0, 3.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), spread(2.5, 1.0, 4.0));
        assert_eq!(Spread::of(&[7.0]), spread(7.0, 7.0, 7.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_best_is_the_highest_rate_or_the_lowest_other_value() {
        let values = || [2.0, 3.0, 1.0].into_iter();
        assert_eq!(best("ops_per_cpu_s", values()), Some(3.0));
        assert_eq!(best("mb_per_s", values()), Some(3.0));
        assert_eq!(best("read_p99_us", values()), Some(1.0));
        assert_eq!(best("written_bytes", values()), Some(1.0));
        assert_eq!(best("ops_per_s", std::iter::empty()), None);
    }

    #[test]
    fn a_ratio_to_zero_is_none() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
        assert_eq!(ratio(0.0, 0.0), None);
        assert_eq!(ratio(0.0, 2.0), Some(0.0));
    }
}
