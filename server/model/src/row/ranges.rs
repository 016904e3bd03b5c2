//! Range deletions of a partition, as disjoint intervals of encoded clusterings.
//!
//! ```text
//!   one          [a ───────── 5 ───────── m)
//!   other              [d ─── 9 ─── g)     [m ── 5 ── p)
//!   union        [a─ 5 ─d)[d─ 9 ─g)[g ───── 5 ──── p)
//! ```
//!
//! The greatest of overlapping deletions is kept, and pieces are split for that. Neighbours with the
//! same deletion become one piece. So the pieces map each clustering to its greatest deletion,
//! and two sets of deletions with the same meaning have the same pieces.

use super::cell::Deletion;

/// A deletion of all rows whose encoded clustering lies in an interval of bytes.
///
/// In CQL, a bound is a prefix of clustering values. The encoded clusterings that begin with these
/// values are an interval of bytes, too: from the encoded prefix up to the least byte string above
/// all that begin with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeDeletion<'a> {
    /// The first encoded clustering that the interval can contain; empty for the start of the
    /// partition.
    pub start: &'a [u8],
    /// The first encoded clustering after the interval; `None` for the end of the partition.
    pub end: Option<&'a [u8]>,
    /// The deletion that applies to the rows in the interval.
    pub deletion: Deletion,
}

impl RangeDeletion<'_> {
    /// Returns whether the interval is empty.
    pub(super) fn is_void(&self) -> bool {
        self.end.is_some_and(|end| end <= self.start)
    }

    /// Returns whether the interval ends at or before these bytes.
    fn ends_by(&self, at: &[u8]) -> bool {
        self.end.is_some_and(|end| end <= at)
    }
}

/// Returns the deletion that covers this encoded clustering; `None` if there is none. `ranges` are
/// disjoint and ascending.
pub(super) fn deletion_at(ranges: &[RangeDeletion<'_>], clustering: &[u8]) -> Option<Deletion> {
    let after = ranges.partition_point(|range| range.start <= clustering);
    let range = ranges[..after].last()?;
    (!range.ends_by(clustering)).then_some(range.deletion)
}

/// Returns the union of range deletions, which may overlap and come in any order, as disjoint
/// ascending ones. Where deletions overlap, the greatest one applies.
pub(super) fn union_all<'a>(ranges: &[RangeDeletion<'a>]) -> Vec<RangeDeletion<'a>> {
    match ranges {
        [] => Vec::new(),
        [range] if range.is_void() => Vec::new(),
        [range] => vec![*range],
        _ => {
            let (left, right) = ranges.split_at(ranges.len() / 2);
            union(&union_all(left), &union_all(right))
        }
    }
}

/// Returns the union of two lists of range deletions, each disjoint and ascending; so is the
/// result. Where deletions overlap, the greater one applies.
pub(super) fn union<'a>(
    left: &[RangeDeletion<'a>],
    right: &[RangeDeletion<'a>],
) -> Vec<RangeDeletion<'a>> {
    let mut pieces: Vec<RangeDeletion<'a>> = Vec::with_capacity(left.len() + right.len());
    let (mut lefts, mut rights) = (left, right);
    let mut at: &[u8] = &[];
    loop {
        for side in [&mut lefts, &mut rights] {
            while let [first, rest @ ..] = *side
                && first.ends_by(at)
            {
                *side = rest;
            }
        }
        let next = [lefts.first(), rights.first()];
        let Some(start) = next.iter().flatten().map(|range| range.start.max(at)).min() else {
            return pieces;
        };
        // The piece extends to the next begin or end of either range.
        let mut end: Option<&[u8]> = None;
        let mut deletion = None;
        for range in next.into_iter().flatten() {
            let border = if range.start <= start {
                deletion = deletion.max(Some(range.deletion));
                range.end
            } else {
                Some(range.start)
            };
            end = match (end, border) {
                (Some(end), Some(border)) => Some(end.min(border)),
                (end, border) => end.or(border),
            };
        }
        let deletion = deletion.expect("one of them begins here");
        push(
            &mut pieces,
            RangeDeletion {
                start,
                end,
                deletion,
            },
        );
        match end {
            Some(end) => at = end,
            None => return pieces,
        }
    }
}

/// Appends the deletion of a range, or extends the last one if the range continues it and the
/// deletion is the same.
pub(super) fn push<'a>(pieces: &mut Vec<RangeDeletion<'a>>, piece: RangeDeletion<'a>) {
    match pieces.last_mut() {
        Some(last) if last.end == Some(piece.start) && last.deletion == piece.deletion => {
            last.end = piece.end;
        }
        _ => pieces.push(piece),
    }
}
