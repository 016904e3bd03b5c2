//! Bars: the numbers that a result must not miss.

/// Returns the word for the verdict on a figure: whether it is within its limit (the bar) or beyond
/// it.
pub(super) fn verdict(is_within: bool) -> &'static str {
    if is_within { "meets" } else { "misses" }
}
