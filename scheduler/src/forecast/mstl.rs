//! MSTL + ETS, from the `augurs` library.

use super::grid::Grid;
use super::profile::median;
use augurs::ets::AutoETS;
use augurs::mstl::MSTLModel;
use augurs::{Fit, Predict};

/// Number of last days that are decomposed: older days cost time and are less
/// like tomorrow.
const DAYS_MAX: usize = 28;

/// Forecasts the slots after `past`. The decomposition has the period of a day, and also that of a
/// week if `past` has at least two weeks. Returns `None` if `past` has less than two days or only
/// gaps, if `log` is set and the median of the values is zero, or if the library fails.
pub(super) fn forecast(past: &[f64], grid: Grid, log: bool) -> Option<Vec<f64>> {
    let past = &past[past.len().saturating_sub(DAYS_MAX * grid.day)..];
    let mut values = fill_gaps(past)?;
    let scale = if log {
        median(&mut values.clone())?
    } else {
        0.0
    };
    if log && scale <= 0.0 {
        return None;
    }
    if log {
        values
            .iter_mut()
            .for_each(|value| *value = (*value / scale).ln_1p());
    }
    // A period of one step is left out: the library divides by the period minus
    // one.
    let periods = [grid.day, 7 * grid.day].into_iter();
    let periods: Vec<usize> = periods
        .filter(|&p| p > 1 && 2 * p <= values.len())
        .collect();
    if periods.is_empty() {
        return None;
    }
    let model = MSTLModel::new(periods, AutoETS::non_seasonal().into_trend_model());
    let fitted = model.fit(&values).ok()?;
    let ahead = fitted.predict(grid.horizon, None).ok()?.point;
    let unlog = |value: f64| if log { value.exp_m1() * scale } else { value };
    Some(
        ahead
            .into_iter()
            .map(|value| unlog(value).max(0.0))
            .collect(),
    )
}

/// Fills gaps: a straight line between the neighbours, and at the ends the
/// nearest value. `None` if there are only gaps.
fn fill_gaps(past: &[f64]) -> Option<Vec<f64>> {
    let known: Vec<usize> = (0..past.len()).filter(|&i| !past[i].is_nan()).collect();
    let (&first, &last) = (known.first()?, known.last()?);
    let mut values = past.to_vec();
    values[..first].fill(past[first]);
    values[last..].fill(past[last]);
    for pair in known.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let step = (past[b] - past[a]) / (b - a) as f64;
        for (i, value) in values[a + 1..b].iter_mut().enumerate() {
            *value = past[a] + (i + 1) as f64 * step;
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn day(hour: usize) -> f64 {
        50.0 + 30.0 * (hour as f64 / 24.0 * TAU).sin()
    }

    #[test]
    fn a_daily_cycle_is_forecast_in_spite_of_a_gap() {
        let grid = Grid {
            day: 24,
            horizon: 24,
        };
        let mut past: Vec<f64> = (0..20 * 24).map(day).collect();
        past[100..110].fill(f64::NAN);
        for log in [false, true] {
            let ahead = forecast(&past, grid, log).expect("there are weeks of it");
            for (hour, value) in ahead.iter().enumerate() {
                assert!(
                    (value - day(hour)).abs() < 3.0,
                    "log {log}, {hour} h: {value}"
                );
            }
        }
    }

    #[test]
    fn less_than_two_days_and_series_of_gaps_only_have_no_forecast() {
        let grid = Grid {
            day: 24,
            horizon: 24,
        };
        assert_eq!(forecast(&[1.0; 47], grid, false), None);
        assert_eq!(forecast(&[f64::NAN; 100], grid, false), None);
        assert_eq!(
            forecast(&[0.0; 100], grid, true),
            None,
            "no log without a scale"
        );
    }
}
