//! Pagination of lists: a page begins after an element of the page before, and has a length.

use super::super::problem::Problem;

/// The default length of a page.
const LIMIT: u32 = 100;
/// The largest length of a page.
const LIMIT_MAX: u32 = 1000;

/// Returns the length of a page.
///
/// # Errors
/// When `limit` is out of range.
pub(super) fn limit_of(limit: Option<u32>) -> Result<usize, Problem> {
    match limit.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT_MAX => Ok(limit as usize),
        limit => Err(Problem::invalid(format!(
            "limit: {limit} is not from 1 to {LIMIT_MAX}"
        ))),
    }
}

/// Returns the first `limit` elements of `all`, and the place of the last one if more follow. The
/// caller has left out the elements of earlier pages.
pub(super) fn page<T>(
    all: impl IntoIterator<Item = T>,
    limit: usize,
    place: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let mut all = all.into_iter();
    let page: Vec<T> = all.by_ref().take(limit).collect();
    let next = all.next().and_then(|_| page.last()).map(place);
    (page, next)
}
