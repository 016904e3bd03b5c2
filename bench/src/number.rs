//! Formats numbers for tables, pages and pictures.
//!
//! All tables, pages and pictures format measured and computed numbers with these functions. A
//! number that does not exist (no job had a goal, no task ended, a ratio over 0) is "-". JSON files
//! have null in its place, so that scripts find either a number or nothing.

/// The text for a number that does not exist.
pub const NONE: &str = "-";

/// Formats a number with this many decimals; "-" for `None`, NaN and infinities.
#[must_use]
pub fn fixed(value: impl Into<Option<f64>>, decimals: usize) -> String {
    let value: Option<f64> = value.into();
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return NONE.to_string();
    };
    let text = format!("{value:.decimals$}");
    let is_nothing = text.chars().all(|char| matches!(char, '-' | '0' | '.'));
    if is_nothing {
        // Drops the sign of "-0.00": it comes from a rounding error.
        return text.trim_start_matches('-').to_string();
    }
    text
}

/// Formats a fraction, 0 to 1, in percent with this many decimals.
#[must_use]
pub fn percent(part: impl Into<Option<f64>>, decimals: usize) -> String {
    let part: Option<f64> = part.into();
    let mut percent = fixed(part.map(|part| 100.0 * part), decimals);
    if percent != NONE {
        percent.push('%');
    }
    percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_numbers_are_a_dash() {
        assert_eq!(fixed(1.26, 1), "1.3");
        assert_eq!(fixed(Some(-3.0), 0), "-3");
        for nothing in [
            None,
            Some(f64::NAN),
            Some(f64::INFINITY),
            Some(-f64::INFINITY),
        ] {
            assert_eq!(fixed(nothing, 2), "-");
            assert_eq!(percent(nothing, 2), "-");
        }
        assert_eq!(percent(0.125, 1), "12.5%");
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(fixed(-0.0, 2), "0.00");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-0.01, 2), "-0.01");
        assert_eq!(percent(-0.0001, 1), "0.0%");
    }
}
