//! Whether a number of a scenario lies within its bounds.

use super::error::Complaint;
use crate::sim::bounds::{FACTOR_MAX, LOG_SD_MAX, SECONDS_MAX, TASK_SECONDS_MIN};

/// A value, or the field that is wrong.
pub(super) type Checked<T> = Result<T, Complaint>;

/// Above 0, and at most `most`.
pub(super) fn positive(field: &str, value: f64, most: f64) -> Checked<()> {
    if !(value.is_finite() && value > 0.0) {
        let what = format!("must be positive and finite, got {value}");
        return Err(Complaint::new(field, what));
    }
    at_most(field, value, most)
}

/// 0 or more, and at most `most`.
pub(super) fn not_negative(field: &str, value: f64, most: f64) -> Checked<()> {
    if !(value.is_finite() && value >= 0.0) {
        let what = format!("must be finite and not negative, got {value}");
        return Err(Complaint::new(field, what));
    }
    at_most(field, value, most)
}

/// From `least` on, which is positive, up to `most`.
pub(super) fn between(field: &str, value: f64, least: f64, most: f64) -> Checked<()> {
    positive(field, value, most)?;
    if value < least {
        let what = format!("must be at least {least}, got {value}");
        return Err(Complaint::new(field, what));
    }
    Ok(())
}

/// A point in time, or how long something takes, in seconds.
pub(super) fn seconds(field: &str, value: f64) -> Checked<()> {
    not_negative(field, value, SECONDS_MAX)
}

/// How long a task takes, in seconds.
pub(super) fn task_seconds(field: &str, value: f64) -> Checked<()> {
    between(field, value, TASK_SECONDS_MIN, SECONDS_MAX)
}

/// The standard deviation of a logarithm.
pub(super) fn log_sd(field: &str, value: f64) -> Checked<()> {
    not_negative(field, value, LOG_SD_MAX)
}

/// How many times as much: a number around 1.
pub(super) fn factor(field: &str, value: f64) -> Checked<()> {
    between(field, value, 1.0 / FACTOR_MAX, FACTOR_MAX)
}

/// How many times as much, never less.
pub(super) fn factor_of_at_least_one(field: &str, value: f64) -> Checked<()> {
    between(field, value, 1.0, FACTOR_MAX)
}

/// Two factors, the smaller one first.
pub(super) fn factors(field: &str, (low, high): (f64, f64)) -> Checked<()> {
    factor(field, low)?;
    factor(field, high)?;
    if high < low {
        let what =
            format!("must be two positive numbers, the smaller one first, got {low}, {high}");
        return Err(Complaint::new(field, what));
    }
    Ok(())
}

/// A number of things, at least one.
pub(super) fn count(field: &str, value: u32, most: u64) -> Checked<()> {
    if value == 0 {
        return Err(Complaint::new(field, "must be at least 1"));
    }
    at_most(field, u64::from(value), most)
}

/// At most `most`, which the error names.
pub(super) fn at_most<N: PartialOrd + std::fmt::Display>(
    field: &str,
    value: N,
    most: N,
) -> Checked<()> {
    if value > most {
        return Err(Complaint::new(field, format!("is {value}; at most {most}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_bounds_is_named_with_its_bound() {
        let said = |checked: Checked<()>| checked.unwrap_err().what;
        assert_eq!(
            said(positive("x", f64::INFINITY, 1.0)),
            "must be positive and finite, got inf"
        );
        assert_eq!(
            said(seconds("x", 1e10)),
            "is 10000000000; at most 1000000000"
        );
        assert_eq!(
            said(task_seconds("x", 1e-9)),
            "must be at least 0.000001, got 0.000000001"
        );
        assert_eq!(said(count("x", 0, 5)), "must be at least 1");
        assert_eq!(said(count("x", 6, 5)), "is 6; at most 5");
        assert!(said(factors("x", (2.0, 1.0))).contains("the smaller one first"));
        assert!(said(factors("x", (f64::NAN, 1.0))).contains("positive and finite"));
        for fine in [0.0, 0.5, SECONDS_MAX] {
            assert_eq!(seconds("x", fine), Ok(()));
        }
        assert_eq!(factors("x", (0.2, 5.0)), Ok(()));
    }
}
