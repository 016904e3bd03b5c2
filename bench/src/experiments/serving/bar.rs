//! Bars: the numbers that a result must not miss.

/// Returns the word for a number that meets its bar (is within its limit), or for one that misses
/// it.
pub(super) fn verdict(is_within: bool) -> &'static str {
    if is_within { "meets" } else { "misses" }
}
