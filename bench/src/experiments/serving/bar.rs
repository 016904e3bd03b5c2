//! Bars: the numbers that a result must not miss.

/// The word for a number that is within its bar, or not.
pub(super) fn verdict(is_within: bool) -> &'static str {
    if is_within { "meets" } else { "misses" }
}
