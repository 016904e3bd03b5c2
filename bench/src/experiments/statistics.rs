//! Means and medians of measurements.

use std::borrow::Borrow;

use ebb_scheduler::forecast;

/// Returns the mean of `values`; NaN if there are none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// Returns the median of `values`. Panics if there are none.
pub fn median(values: impl IntoIterator<Item: Borrow<f64>>) -> f64 {
    let values = values
        .into_iter()
        .map(|value| *Borrow::<f64>::borrow(&value));
    median_if_any(values).expect("there is at least one value")
}

/// Returns, for each round, the mean of two measurements of the baseline: one `before` and one
/// after (`behind`) the measurement that is compared with it. In this comparison a drift of the
/// machine's speed cancels out.
pub fn means_of_rounds(before: &[f64], behind: &[f64]) -> Vec<f64> {
    let rounds = before.iter().zip(behind);
    rounds
        .map(|(before, behind)| (before + behind) / 2.0)
        .collect()
}

/// Returns the median over the rounds of the ratio of `above` to `below`; `None` without rounds.
pub fn median_ratio(above: &[f64], below: &[f64]) -> Option<f64> {
    median_if_any(above.iter().zip(below).map(|(above, below)| above / below))
}

/// Returns the median of the values; `None` without values.
pub fn median_if_any(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    forecast::median(&mut values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median_if_any([]), None);
        assert_eq!(median_ratio(&[4.0, 9.0, 8.0], &[2.0, 3.0, 2.0]), Some(3.0));
        assert_eq!(mean([4.0, 1.0, 1.0]), 2.0);
        assert_eq!(means_of_rounds(&[1.0, 4.0], &[3.0, 5.0]), [2.0, 4.5]);
    }
}
