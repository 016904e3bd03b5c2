//! Bars: the numbers that a result must not miss.

/// Returns the word for a figure within its limit (the bar), or for one beyond it.
pub(super) fn verdict(is_within: bool) -> &'static str {
    if is_within { "meets" } else { "misses" }
}
