//! Bounds and defaults of options that several applications have.

use super::error::RequestError;

/// The largest number of map tasks that a job may have for each input, and the largest number of reduce tasks.
pub(crate) const TASKS_MAX: u32 = 10_000;

/// Returns the default number of reduce tasks: one.
pub(crate) fn one() -> u32 {
    1
}

/// Checks that `value`, if there is one, lies in the range `least..=most`. The error names the
/// option `field`.
pub(crate) fn within(
    field: &str,
    value: Option<u32>,
    least: u32,
    most: u32,
) -> Result<(), RequestError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => Err(RequestError::Senseless(format!(
            "{field} is {value}; it may be {least} to {most}"
        ))),
        _ => Ok(()),
    }
}

/// Checks that `value` is a number from 0 to 1.
pub(crate) fn part_of_one(field: &str, value: f64) -> Result<(), RequestError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(RequestError::Senseless(format!(
        "{field} is {value}; it may be 0 to 1"
    )))
}

#[cfg(feature = "args")]
pub(crate) fn reduces() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(TASKS_MAX))
}

/// Parses a number from 0 to 1.
#[cfg(feature = "args")]
pub(crate) fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("expected a number from 0 to 1".to_string()),
    }
}
