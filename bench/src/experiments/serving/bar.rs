//! Bars: the numbers that a result must not miss.

/// Returns the word for a number that is within its bar, or for one that is not.
pub(super) fn verdict(is_within: bool) -> &'static str {
    if is_within { "meets" } else { "misses" }
}
