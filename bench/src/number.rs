//! Numbers as people read them.
//!
//! Tables, pages and pictures write every measured or computed number by these: a number that does
//! not exist (no job had a goal, no task ended, a ratio over nothing) is "-". JSON has null in its
//! place, so that scripts find numbers of one type or nothing.

/// In place of a number that there is not.
pub const NONE: &str = "-";

/// With this many decimals; "-" for `None`, NaN and infinities.
#[must_use]
pub fn fixed(value: impl Into<Option<f64>>, decimals: usize) -> String {
    let value: Option<f64> = value.into();
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return NONE.to_string();
    };
    let text = format!("{value:.decimals$}");
    let is_nothing = text.chars().all(|char| matches!(char, '-' | '0' | '.'));
    if is_nothing {
        // "-0.00" has the sign of a rounding error.
        return text.trim_start_matches('-').to_string();
    }
    text
}

/// A part of something, 0 to 1, in percent and with this many decimals.
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
    fn what_is_no_number_is_a_dash() {
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
    fn nothing_has_no_sign() {
        assert_eq!(fixed(-0.0, 2), "0.00");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-0.01, 2), "-0.01");
        assert_eq!(percent(-0.0001, 1), "0.0%");
    }
}
