//! Restrictions on keys as byte ranges.

use std::cmp::Ordering;
use std::ops::Bound;

use super::layout::{KeyLayout, Order};
use super::{KeyError, PARTITIONS_START, Token};

/// The byte strings from `from` to before `to`. With `None` for `to`, the range has no upper end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The first key of the range.
    pub from: Vec<u8>,
    /// The first key after the range.
    pub to: Option<Vec<u8>>,
}

impl ByteRange {
    /// Returns the range of all keys that begin with `prefix`.
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        Self {
            to: end_of_prefix(&prefix),
            from: prefix,
        }
    }

    /// Returns whether the range contains no key.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// Returns the number of bytes in the two ends of the range.
    pub fn size_bytes(&self) -> usize {
        self.from.len() + self.to.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether the range contains `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_ref().is_none_or(|to| *key < **to)
    }
}

/// Returns the least byte string above all that begin with `prefix`; `None` if there is none.
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut out = prefix[..=last].to_vec();
    out[last] += 1;
    Some(out)
}

/// Returns the range of the keys of partitions whose tokens lie between two bounds. It never
/// contains the schema's key or entries of indexes: these sort before the keys of all partitions,
/// because no partition has the least token.
pub fn token_range(start: Bound<Token>, end: Bound<Token>) -> ByteRange {
    let after = |token: Token| end_of_prefix(&token.to_ordered());
    let from = match start {
        Bound::Unbounded | Bound::Included(Token::MIN) => Some(PARTITIONS_START.to_vec()),
        Bound::Included(token) => Some(token.to_ordered().to_vec()),
        Bound::Excluded(token) => after(token),
    };
    let Some(from) = from else {
        // No key follows the last token.
        let end = Token::MAX.to_ordered().to_vec();
        return ByteRange {
            from: end.clone(),
            to: Some(end),
        };
    };
    let to = match end {
        Bound::Unbounded => None,
        Bound::Included(token) => after(token),
        Bound::Excluded(token) => Some(token.to_ordered().to_vec()),
    };
    ByteRange { from, to }
}

/// One end of a slice: values for consecutive clustering columns, compared as a tuple.
#[derive(Debug, Clone, Copy)]
pub struct SliceBound<'a> {
    /// One or more values, for the first of the clustering columns that may differ between rows of
    /// the slice. The other end of the slice may have a different number of values.
    pub values: &'a [&'a [u8]],
    /// True if rows that begin with these values are part of the slice.
    pub inclusive: bool,
}

impl<'a> SliceBound<'a> {
    /// Returns the bound without its first value: the bound on the columns after the first one, for
    /// rows whose first column equals that value.
    fn rest(self) -> Self {
        Self {
            values: &self.values[1..],
            ..self
        }
    }
}

impl KeyLayout {
    /// Returns the ranges of the rows whose first clustering columns are `equal`, and whose next
    /// ones lie between two tuples *by value*: `a = 1 AND (b, c) > (2, 3) AND b <= 5`.
    ///
    /// If columns have different directions, a range of tuples consists of several ranges of keys.
    /// They are disjoint, do not touch, and come in the order of keys. They contain encoded
    /// clustering columns: the part of a key after [`ROW`](super::ROW). None of them is empty; a
    /// contradiction results in none at all.
    ///
    /// The stack grows with the number of values in a bound, and the memory with its square, so
    /// callers limit that number.
    ///
    /// # Errors
    /// The errors of [`KeyLayout::encode_clustering`].
    pub fn slices(
        &self,
        equal: &[&[u8]],
        lower: Option<SliceBound<'_>>,
        upper: Option<SliceBound<'_>>,
    ) -> Result<Vec<ByteRange>, KeyError> {
        let mut out = Vec::new();
        self.add_slices(equal, lower, upper, &mut out)?;
        Ok(out)
    }

    /// Appends the ranges of [`slices`](Self::slices). Compares the bounds only in the first column
    /// after `equal`. The rows that lie strictly between both bounds in this column are one range.
    /// For the rows with the value of a bound in this column, it does the same with the columns
    /// after it.
    fn add_slices<'a>(
        &self,
        equal: &[&'a [u8]],
        lower: Option<SliceBound<'a>>,
        upper: Option<SliceBound<'a>>,
        out: &mut Vec<ByteRange>,
    ) -> Result<(), KeyError> {
        // A bound with no values left applies to all rows here: either it includes them or it
        // excludes them.
        for bound in [lower, upper].into_iter().flatten() {
            if bound.values.is_empty() && !bound.inclusive {
                return Ok(());
            }
        }
        let low = lower.filter(|b| !b.values.is_empty());
        let high = upper.filter(|b| !b.values.is_empty());
        let range = ByteRange::of_prefix(self.encoded(equal)?);
        let (least, greatest) = (low.map(|b| b.values[0]), high.map(|b| b.values[0]));
        if least.is_none() && greatest.is_none() {
            push(range, out);
            return Ok(());
        }
        let Some(column) = self.clustering().get(equal.len()) else {
            // There are more values than columns: the encoding returns the error.
            let one = least.or(greatest);
            let values: Vec<&[u8]> = equal.iter().copied().chain(one).collect();
            return self.encoded(&values).map(drop);
        };
        if let (Some(a), Some(b)) = (least, greatest) {
            match column.ty.compare(a, b) {
                Ordering::Greater => return Ok(()),
                // All rows of the slice have this value, and both bounds limit the columns after it.
                Ordering::Equal => {
                    return self.add_at(equal, (Some(a), low, high), out);
                }
                Ordering::Less => {}
            }
        }

        // In the order of values come the rows at the least value, between both, and at the
        // greatest. A descending column has them in reverse.
        let at_least = (least, low, None);
        let at_greatest = (greatest, None, high);
        let (first, last) = match column.order {
            Order::Asc => (at_least, at_greatest),
            Order::Desc => (at_greatest, at_least),
        };
        let from = match first.0 {
            Some(value) => end_of_prefix(&self.encoded(&[equal, &[value][..]].concat())?),
            None => Some(range.from),
        };
        let to = match last.0 {
            Some(value) => Some(self.encoded(&[equal, &[value][..]].concat())?),
            None => range.to,
        };
        self.add_at(equal, first, out)?;
        // Without `from`, no key follows those at the first bound.
        if let Some(from) = from {
            push(ByteRange { from, to }, out);
        }
        self.add_at(equal, last, out)
    }

    /// Adds the slices of the rows whose first columns equal `equal` and whose next column equals
    /// `value`, the first value of a tuple that bounds them. The other values of the tuple limit
    /// the columns after it: for `(c1, c2) > (v1, v2)` these are the rows with c1 = v1 and c2 > v2.
    /// Adds none if `value` is `None`: there is no bound on this side.
    fn add_at<'a>(
        &self,
        equal: &[&'a [u8]],
        (value, lower, upper): (
            Option<&'a [u8]>,
            Option<SliceBound<'a>>,
            Option<SliceBound<'a>>,
        ),
        out: &mut Vec<ByteRange>,
    ) -> Result<(), KeyError> {
        let Some(value) = value else { return Ok(()) };
        self.add_slices(
            &[equal, &[value][..]].concat(),
            lower.map(SliceBound::rest),
            upper.map(SliceBound::rest),
            out,
        )
    }

    fn encoded(&self, values: &[&[u8]]) -> Result<Vec<u8>, KeyError> {
        let mut out = Vec::new();
        self.encode_clustering(values, &mut out)?;
        Ok(out)
    }
}

/// Appends a range to `out`, or extends the last range there if both touch. Leaves out an empty range.
fn push(range: ByteRange, out: &mut Vec<ByteRange>) {
    if range.is_empty() {
        return;
    }
    match out.last_mut() {
        Some(last) if last.to.as_ref() == Some(&range.from) => last.to = range.to,
        _ => out.push(range),
    }
}
