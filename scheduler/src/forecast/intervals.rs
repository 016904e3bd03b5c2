//! Prediction intervals: quantiles of the errors of past forecasts.

use super::series::Series;

/// Number of quantiles of a slot: one for each percent from 1 to 99.
pub(super) const PERCENTS: usize = 99;

/// Half-width in days of the window around a time of day whose errors are pooled: an hour and a
/// half.
const AROUND_DAYS: f64 = 1.0 / 16.0;

/// Fraction of the median load that is added to a forecast to get the divisor of its error. If
/// the divisor were the forecast alone, errors at loads near zero would be infinite.
const FLOOR: f64 = 0.1;

/// Largest size of a relative error: the quotient of values of very different size may be infinite.
const ERROR_MAX: f64 = 1e100;

/// The relative errors of past forecasts. A relative error is the measured value minus the
/// forecast, divided by the sum of the forecast and `floor`. The floor keeps this sum positive: it
/// is a tenth of the median load, or 1 if the median is 0.
pub(super) struct Errors {
    /// For each past forecast, the relative error in each slot of the horizon; NaN where nothing
    /// was measured.
    relative: Vec<Vec<f64>>,
    floor: f64,
    around: usize,
}

impl Errors {
    /// Computes the relative errors of `replayed`: past forecasts, each with the slot at which
    /// it begins. `level` is the median load of the past days, `day` the length of a day in
    /// steps.
    pub(super) fn of(
        series: &Series,
        replayed: &[(usize, Vec<f64>)],
        level: f64,
        day: usize,
    ) -> Self {
        // A median load of zero gives no scale, but the floor must be positive all the same.
        let floor = if level > 0.0 { FLOOR * level } else { 1.0 };
        let relative = replayed.iter().map(|(origin, forecast)| {
            let slots = forecast.iter().enumerate();
            let errors = slots.map(|(ahead, forecast)| {
                let value = series.value(origin + ahead).unwrap_or(f64::NAN);
                // `clamp` keeps NaN; `min` would replace it by a number.
                ((value - forecast) / (forecast + floor)).clamp(-ERROR_MAX, ERROR_MAX)
            });
            errors.collect()
        });
        Self {
            relative: relative.collect(),
            floor,
            around: (AROUND_DAYS * day as f64).round() as usize,
        }
    }

    /// Returns the percentiles 1 to 99 of the load in slot `ahead` of the horizon, each at least 0.
    /// `forecast` is the point forecast of this slot.
    ///
    /// A percentile is the point forecast plus a quantile of past relative errors times the sum of
    /// the point forecast and the floor. The errors are those of past forecasts about as far ahead,
    /// at about the same time of day. Of n sorted errors, the q-quantile is at position q (n + 1),
    /// counted from 1 and interpolated between neighbours, but never beyond the first or the last
    /// error. A new error is then equally likely to fall between any two neighbours (split
    /// conformal prediction). Without past errors, all percentiles are the point forecast itself.
    pub(super) fn percentiles(&self, ahead: usize, forecast: f64) -> [f64; PERCENTS] {
        let until = |length: usize| (ahead + self.around + 1).min(length);
        let near = self.relative.iter().flat_map(|day| {
            day[ahead.saturating_sub(self.around)..until(day.len())]
                .iter()
                .copied()
        });
        let mut near: Vec<f64> = near.filter(|error| !error.is_nan()).collect();
        near.sort_unstable_by(f64::total_cmp);
        let mut percentiles = [forecast; PERCENTS];
        if !near.is_empty() {
            for (index, percentile) in percentiles.iter_mut().enumerate() {
                let error = quantile(&near, (index + 1) as f64 / 100.0);
                *percentile = (forecast + error * (forecast + self.floor)).max(0.0);
            }
        }
        percentiles
    }
}

/// Returns the `q`-quantile of `sorted`, which holds at least one value.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len() - 1;
    let place = ((sorted.len() + 1) as f64 * q - 1.0).clamp(0.0, last as f64);
    let low = place.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_leave_equal_chances_between_values() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert!((quantile(&sorted, 0.2) - 1.0).abs() < 1e-12);
        assert!((quantile(&sorted, 0.3) - 1.5).abs() < 1e-12);
        assert_eq!(quantile(&sorted, 0.99), 4.0);
        assert_eq!(quantile(&[7.0], 0.01), 7.0);
    }

    #[test]
    fn errors_are_relative_to_the_forecast_and_never_lead_below_zero() {
        let series = Series::new(0.0, 1.0, vec![Some(10.0), Some(0.0), None]).unwrap();
        // The floor is 1. A day has three steps, so the window around a time of day holds no
        // other.
        let replayed = [(0, vec![4.0, 9.0, 9.0])];
        let errors = Errors::of(&series, &replayed, 10.0, 3);
        assert_eq!(errors.percentiles(0, 4.0)[49], 10.0);
        assert_eq!(errors.percentiles(0, 9.0)[49], 9.0 + 6.0 / 5.0 * 10.0);
        assert_eq!(errors.percentiles(1, 99.0)[0], 99.0 - 90.0);
        assert_eq!(errors.percentiles(1, 0.0)[0], 0.0, "not -0.9");
        assert_eq!(errors.percentiles(2, 5.0)[49], 5.0, "nothing is known");
    }
}
