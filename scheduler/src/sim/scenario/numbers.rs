//! Checks that the numbers of a scenario lie within their bounds.

use std::fmt::{Display, LowerExp};

use super::error::FieldError;
use crate::sim::bounds::{FACTOR_MAX, LOG_SD_MAX, SECONDS_MAX, TASK_SECONDS_MIN};

/// A value, or the error of an invalid field.
pub(super) type FieldResult<T> = Result<T, FieldError>;

/// Returns the text of a number for an error: with an exponent if it has more digits than a person
/// would read, such as those of 1e300.
pub(super) fn shown<N: Display + LowerExp>(number: N) -> String {
    /// The number of characters of the largest integer of 64 bits.
    const CHARS_MAX: usize = 20;
    let digits = number.to_string();
    if digits.len() > CHARS_MAX {
        return format!("{number:e}");
    }
    digits
}

/// Checks that `value` is above 0 and at most `most`.
pub(super) fn positive(field: &str, value: f64, most: f64) -> FieldResult<()> {
    if !(value.is_finite() && value > 0.0) {
        let what = format!("must be positive and finite, got {}", shown(value));
        return Err(FieldError::new(field, what));
    }
    at_most(field, value, most)
}

/// Checks that `value` is at least 0 and at most `most`.
pub(super) fn not_negative(field: &str, value: f64, most: f64) -> FieldResult<()> {
    if !(value.is_finite() && value >= 0.0) {
        let what = format!("must be finite and not negative, got {}", shown(value));
        return Err(FieldError::new(field, what));
    }
    at_most(field, value, most)
}

/// Checks that `value` lies between `least`, which is positive, and `most`.
pub(super) fn between(field: &str, value: f64, least: f64, most: f64) -> FieldResult<()> {
    positive(field, value, most)?;
    if value < least {
        let what = format!("must be at least {least}, got {}", shown(value));
        return Err(FieldError::new(field, what));
    }
    Ok(())
}

/// Checks a time or a duration, in seconds.
pub(super) fn seconds(field: &str, value: f64) -> FieldResult<()> {
    not_negative(field, value, SECONDS_MAX)
}

/// Checks the length of a task, in seconds.
pub(super) fn task_seconds(field: &str, value: f64) -> FieldResult<()> {
    between(field, value, TASK_SECONDS_MIN, SECONDS_MAX)
}

/// Checks the standard deviation of a logarithm.
pub(super) fn log_sd(field: &str, value: f64) -> FieldResult<()> {
    not_negative(field, value, LOG_SD_MAX)
}

/// Checks a factor, which may be below or above 1.
pub(super) fn factor(field: &str, value: f64) -> FieldResult<()> {
    between(field, value, 1.0 / FACTOR_MAX, FACTOR_MAX)
}

/// Checks a factor that must be at least 1.
pub(super) fn factor_of_at_least_one(field: &str, value: f64) -> FieldResult<()> {
    between(field, value, 1.0, FACTOR_MAX)
}

/// Checks the bounds of a range of factors: both must be positive, and `low` at most `high`.
pub(super) fn factors(field: &str, (low, high): (f64, f64)) -> FieldResult<()> {
    factor(field, low)?;
    factor(field, high)?;
    if high < low {
        let what =
            format!("must be two positive numbers, the smaller one first, got {low}, {high}");
        return Err(FieldError::new(field, what));
    }
    Ok(())
}

/// Checks that a count is at least 1 and at most `most`.
pub(super) fn count(field: &str, value: u32, most: u64) -> FieldResult<()> {
    if value == 0 {
        return Err(FieldError::new(field, "must be at least 1"));
    }
    at_most(field, u64::from(value), most)
}

/// Checks that `value` is at most `most`, which the error names.
pub(super) fn at_most<N: PartialOrd + Display + LowerExp>(
    field: &str,
    value: N,
    most: N,
) -> FieldResult<()> {
    if value > most {
        return Err(FieldError::new(
            field,
            format!("is {}; at most {}", shown(value), shown(most)),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_numbers_out_of_bounds_name_the_bound() {
        let message = |result: FieldResult<()>| result.unwrap_err().what;
        assert_eq!(
            message(positive("x", f64::INFINITY, 1.0)),
            "must be positive and finite, got inf"
        );
        assert_eq!(
            message(seconds("x", 1e10)),
            "is 10000000000; at most 1000000000"
        );
        assert_eq!(message(seconds("x", 1e300)), "is 1e300; at most 1000000000");
        assert_eq!(
            message(seconds("x", -1e300)),
            "must be finite and not negative, got -1e300"
        );
        assert_eq!(
            message(task_seconds("x", 1e-300)),
            "must be at least 0.000001, got 1e-300"
        );
        assert_eq!(
            message(task_seconds("x", 1e-9)),
            "must be at least 0.000001, got 0.000000001"
        );
        assert_eq!(message(count("x", 0, 5)), "must be at least 1");
        assert_eq!(message(count("x", 6, 5)), "is 6; at most 5");
        assert!(message(factors("x", (2.0, 1.0))).contains("the smaller one first"));
        assert!(message(factors("x", (f64::NAN, 1.0))).contains("positive and finite"));
        for fine in [0.0, 0.5, SECONDS_MAX] {
            assert_eq!(seconds("x", fine), Ok(()));
        }
        assert_eq!(factors("x", (0.2, 5.0)), Ok(()));
    }
}
