//! Pagination of lists: a page begins after an element of the page before, and has a length.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::problem::Problem;
use super::answer::Params;

/// The default length of a page of jobs, tables, snapshots or rows.
const LIMIT: u32 = 100;
/// The largest length of a page of any list but that of attempts, which has a limit of its own.
const LIMIT_MAX: u32 = 1000;

/// The query parameters of a list that can only be paged, not filtered.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Paged {
    /// The largest number of elements in the page, 1000 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The value of `next` in the page before this one.
    after: Option<String>,
}

/// The requested page of a list, extracted from the query parameters [`Paged`]. An invalid query
/// gets 400. The default length of a page is the largest one, because these lists are short: most
/// are one page.
pub(super) struct PageRequest {
    /// The largest number of elements in the page.
    limit: usize,
    /// The position of the last element of the previous page; `None` for the first page.
    after: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for PageRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = Params::<Paged>::from_request_parts(parts, state).await?;
        let Params(Paged { limit, after }) = params;
        let limit = limit_within(limit.unwrap_or(LIMIT_MAX), LIMIT_MAX)?;
        Ok(Self { limit, after })
    }
}

impl PageRequest {
    /// Returns the elements of this page, and the position of the page's last element if more follow. `place`
    /// returns the position of an element. `all` must be ordered by position.
    pub(super) fn of<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        place: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        let is_after = |element: &T| {
            let after = self.after.as_deref();
            after.is_none_or(|after| *place(element) > *after)
        };
        let rest = all.into_iter().filter(is_after);
        page(rest, self.limit, &place)
    }
}

/// Returns the length of a page: `limit`, or [`LIMIT`] for `None`.
///
/// # Errors
/// 400 when `limit` is 0 or above [`LIMIT_MAX`].
pub(super) fn limit_of(limit: Option<u32>) -> Result<usize, Problem> {
    limit_within(limit.unwrap_or(LIMIT), LIMIT_MAX)
}

/// Returns `limit` as the length of a page.
///
/// # Errors
/// 400 when `limit` is 0 or above `max`.
pub(super) fn limit_within(limit: u32, max: u32) -> Result<usize, Problem> {
    if (1..=max).contains(&limit) {
        return Ok(limit as usize);
    }
    let text = format!("limit: {limit} is not from 1 to {max}");
    Err(Problem::invalid(text))
}

/// Returns the first `limit` elements of `all`, and the position of the last of these if more follow. `all`
/// must not have the elements of earlier pages.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_put_together_are_the_list_and_the_last_one_names_no_next() {
        let all = ["a", "b", "c", "d", "e"];
        for limit in 1..=6 {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let request = PageRequest { limit, after };
                let (page, next) = request.of(all, |name| (*name).to_string());
                assert!((1..=limit).contains(&page.len()), "{page:?}");
                found.extend(page);
                after = next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, all, "by {limit}");
        }
        let after = Some("bb".to_string());
        let request = PageRequest { limit: 2, after };
        let (page, _) = request.of(all, |name| (*name).to_string());
        assert_eq!(page, ["c", "d"], "the element of the place may be gone");
    }
}
