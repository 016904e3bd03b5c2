//! Times as arguments, and as text.

use std::time::{Duration, UNIX_EPOCH};

use ebb_tables::lifetime::{LIFETIME_MAX, LIFETIME_YEARS_MAX};

/// The last second of the year 9999, in seconds since 1970. RFC 3339 has no form of a later time.
const LAST_UNIX_S: u64 = 253_402_300_799;

/// Formats a time, in seconds since 1970, by RFC 3339. A time after the year 9999 becomes the end
/// of that year: a file that was damaged or edited by hand may have any number.
pub(super) fn rfc3339(unix_s: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST_UNIX_S));
    humantime::format_rfc3339_seconds(at).to_string()
}

/// Parses `500ms` or `1h 5m`.
///
/// # Errors
/// If the text is no time, or has no unit. The error shows the expected form, which those of the library's
/// parser do not. The console has the same text for a number without a unit.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            format!("{text} has no unit: for seconds, write {text}s")
        } else {
            "expected a time, as in 30s, 2h or 7days".to_string()
        }
    })
}

/// Parses `30s` or `1h 5m`: a time above zero, of at most [`LIFETIME_YEARS_MAX`] years.
pub(super) fn to_come(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        time if time.is_zero() => Err("it has to be longer than 0s".to_string()),
        time if time > LIFETIME_MAX => Err(format!("expected at most {LIFETIME_YEARS_MAX} years")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a token file with a time after the year 9999, such as one in milliseconds, made
    /// `ebb token list` panic.
    #[test]
    fn a_time_after_the_year_9999_is_shown_as_its_end() {
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        for unix_s in [LAST_UNIX_S, LAST_UNIX_S + 1, 1_800_000_000_000, u64::MAX] {
            assert_eq!(rfc3339(unix_s), "9999-12-31T23:59:59Z");
        }
    }

    #[test]
    fn a_time_to_come_is_neither_nothing_nor_for_ever() {
        assert_eq!(to_come("1h 5m"), Ok(Duration::from_secs(3900)));
        assert_eq!(to_come("1000years").map(|_| ()), Ok(()));
        for (text, said) in [
            ("0s", "longer than 0s"),
            ("0days", "longer than 0s"),
            ("-1s", "expected a time"),
            ("soon", "expected a time"),
            ("", "expected a time"),
            ("90", "90 has no unit: for seconds, write 90s"),
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
