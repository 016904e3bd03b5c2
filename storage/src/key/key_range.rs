//! Ranges of keys in their one normal form, from a key (included) to a key (not).
//!
//! The key right behind `k` is `k` and a zero byte, so every range of keys has
//! this form, and two that hold the same keys are equal (empty ones aside).

use std::ops::{Bound, RangeBounds};

use bytes::Bytes;

/// The keys from `start` (included) to `end` (not); no key if `end` is not above `start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Bytes,
    /// The exclusive end; `None` for no end.
    pub(crate) end: Option<Bytes>,
}

impl KeyRange {
    pub(crate) fn all() -> Self {
        Self {
            start: Bytes::new(),
            end: None,
        }
    }

    pub(crate) fn new<K: AsRef<[u8]>, R: RangeBounds<K>>(range: R) -> Self {
        let owned = |key: &K| Bytes::copy_from_slice(key.as_ref());
        let behind = |key: &K| behind(key.as_ref());
        Self {
            start: match range.start_bound() {
                Bound::Included(key) => owned(key),
                Bound::Excluded(key) => behind(key),
                Bound::Unbounded => Bytes::new(),
            },
            end: match range.end_bound() {
                Bound::Included(key) => Some(behind(key)),
                Bound::Excluded(key) => Some(owned(key)),
                Bound::Unbounded => None,
            },
        }
    }

    /// Returns the keys from `first` to `last`, both included.
    pub(crate) fn spanning(first: &[u8], last: &[u8]) -> Self {
        Self {
            start: Bytes::copy_from_slice(first),
            end: Some(behind(last)),
        }
    }

    /// Returns the keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        // Behind them comes the prefix with its last byte raised; one of 0xff
        // has none behind it, and the byte before counts.
        let raised = prefix.iter().rposition(|&byte| byte < u8::MAX).map(|at| {
            let mut end = prefix[..=at].to_vec();
            end[at] += 1;
            end.into()
        });
        Self {
            start: Bytes::copy_from_slice(prefix),
            end: raised,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !is_before(&self.start, self.end.as_ref())
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && is_before(key, self.end.as_ref())
    }

    /// Returns whether the two ranges have a key in common, provided that neither is empty. Returns
    /// true, too, for an empty range that lies within the other range.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        is_before(&self.start, other.end.as_ref()) && is_before(&other.start, self.end.as_ref())
    }

    /// Returns whether all keys of `other` are in this range.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let ends = self.end.as_ref().zip(other.end.as_ref());
        let ends_later = self.end.is_none() || ends.is_some_and(|(own, other)| own >= other);
        self.start <= other.start && ends_later
    }

    /// Returns the keys that are in both ranges.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let ends = self.end.iter().chain(&other.end);
        Self {
            start: self.start.clone().max(other.start.clone()),
            end: ends.min().cloned(),
        }
    }

    /// Returns the smallest range that contains both ranges and the keys between them.
    pub(crate) fn hull(&self, other: &Self) -> Self {
        let ends = self.end.as_ref().zip(other.end.as_ref());
        Self {
            start: self.start.clone().min(other.start.clone()),
            end: ends.map(|(a, b)| a.max(b).clone()),
        }
    }
}

impl RangeBounds<Bytes> for KeyRange {
    fn start_bound(&self) -> Bound<&Bytes> {
        Bound::Included(&self.start)
    }

    fn end_bound(&self) -> Bound<&Bytes> {
        self.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded)
    }
}

/// Returns whether a key lies before the end of a range.
pub(crate) fn is_before(key: &[u8], end: Option<&Bytes>) -> bool {
    end.is_none_or(|end| *key < **end)
}

/// Returns the next key in the order of keys: no key lies between `key` and the result.
fn behind(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_bound_has_its_normal_form() {
        use Bound::*;
        type Form<'a> = (Bound<&'a str>, Bound<&'a str>, &'a str, Option<&'a str>);
        let forms: [Form<'_>; 5] = [
            (Unbounded, Unbounded, "", None),
            (Included("a"), Excluded("b"), "a", Some("b")),
            (Excluded("a"), Included("b"), "a\0", Some("b\0")),
            (Included("b"), Excluded("b"), "b", Some("b")),
            (Excluded(""), Included(""), "\0", Some("\0")),
        ];
        for (lower, upper, start, end) in forms {
            let range = KeyRange::new::<&str, _>((lower, upper));
            assert_eq!(range.start, start);
            assert_eq!(range.end.as_deref(), end.map(str::as_bytes));
            assert_eq!(range.is_empty(), end.is_some_and(|end| end <= start));
        }
    }

    #[test]
    fn an_intersection_has_the_keys_of_both_and_a_hull_all_between() {
        let range = |from: &str, to: Option<&str>| KeyRange {
            start: Bytes::copy_from_slice(from.as_bytes()),
            end: to.map(|to| Bytes::copy_from_slice(to.as_bytes())),
        };
        for (a, b, both, hull) in [
            (
                range("b", Some("f")),
                range("d", None),
                range("d", Some("f")),
                range("b", None),
            ),
            (
                range("b", Some("c")),
                range("d", Some("e")),
                range("d", Some("c")),
                range("b", Some("e")),
            ),
            (
                KeyRange::all(),
                range("a", None),
                range("a", None),
                KeyRange::all(),
            ),
        ] {
            assert_eq!(
                (a.intersection(&b), b.intersection(&a)),
                (both.clone(), both.clone())
            );
            assert_eq!((a.hull(&b), b.hull(&a)), (hull.clone(), hull));
            assert_eq!(a.overlaps(&b), !both.is_empty());
        }
    }

    #[test]
    fn a_prefix_has_just_its_keys() {
        let keys = [
            &b""[..],
            b"a",
            b"a\xff",
            b"a\xff\0",
            b"a\xff\xff",
            b"b",
            b"\xff",
        ];
        for prefix in keys {
            let range = KeyRange::prefix(prefix);
            for key in keys {
                assert_eq!(range.contains(key), key.starts_with(prefix), "{key:?}");
            }
        }
    }
}
