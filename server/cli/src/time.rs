//! Times as arguments.

use std::time::Duration;

use ebb_tables::lifetime::{LIFETIME_MAX, LIFETIME_YEARS_MAX};

/// Parses `30s` or `1h 5m`: a time above zero, of at most [`LIFETIME_YEARS_MAX`] years.
pub(super) fn to_come(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Err(_) => Err("expected a time, as in 30s, 2h or 7days".to_string()),
        Ok(time) if time.is_zero() => Err("it has to be longer than 0s".to_string()),
        Ok(time) if time > LIFETIME_MAX => {
            Err(format!("expected at most {LIFETIME_YEARS_MAX} years"))
        }
        Ok(time) => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_come_is_neither_nothing_nor_for_ever() {
        assert_eq!(to_come("1h 5m"), Ok(Duration::from_secs(3900)));
        assert_eq!(to_come("1000years").map(|_| ()), Ok(()));
        for (text, said) in [
            ("0s", "longer than 0s"),
            ("0days", "longer than 0s"),
            ("-1s", "expected a time"),
            ("soon", "expected a time"),
            ("1000years 1s", "at most 1000 years"),
            ("1001years", "at most 1000 years"),
            ("2000years", "at most 1000 years"),
            ("99999999999999years", "expected"),
        ] {
            let error = to_come(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
