//! Range deletions of a partition, as disjoint intervals of encoded clusterings.
//!
//! ```text
//!   one          [a ───────── 5 ───────── m)
//!   other              [d ─── 9 ─── g)     [m ── 5 ── p)
//!   union        [a─ 5 ─d)[d─ 9 ─g)[g ───── 5 ──── p)
//! ```
//!
//! Where deletions overlap the greater one is kept, pieces are split, and neighbours with
//! one deletion become one piece. So the pieces say for each clustering its greatest
//! deletion and nothing else, and two sets of writes that mean the same are the same.

use super::cell::Deletion;

/// A deletion of all rows whose encoded clustering lies in an interval of bytes.
///
/// CQL's bounds become bytes by the prefix of values they name: all clusterings that
/// begin with these values lie from the prefix itself up to the first bytes after all
/// that begin with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeDeletion<'a> {
    /// The first clustering; empty to begin with the partition.
    pub start: &'a [u8],
    /// Where it ends: the first bytes not deleted; none to the end of the partition.
    pub end: Option<&'a [u8]>,
    /// The deletion.
    pub deletion: Deletion,
}

impl RangeDeletion<'_> {
    /// Whether no clustering lies in it.
    pub(super) fn is_void(&self) -> bool {
        self.end.is_some_and(|end| end <= self.start)
    }

    /// Whether it ends at or before these bytes.
    fn ends_by(&self, at: &[u8]) -> bool {
        self.end.is_some_and(|end| end <= at)
    }
}

/// The deletion at a clustering. `ranges` are disjoint and ascending.
pub(super) fn deletion_at(ranges: &[RangeDeletion<'_>], clustering: &[u8]) -> Option<Deletion> {
    let after = ranges.partition_point(|range| range.start <= clustering);
    let range = ranges[..after].last()?;
    (!range.ends_by(clustering)).then_some(range.deletion)
}

/// The union of ranges in any order, as disjoint ascending pieces.
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

/// The union of two lists of disjoint ascending pieces.
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
        // The piece reaches to where the next of the two begins or ends.
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

/// Adds a piece; one that continues the last becomes part of it.
pub(super) fn push<'a>(pieces: &mut Vec<RangeDeletion<'a>>, piece: RangeDeletion<'a>) {
    match pieces.last_mut() {
        Some(last) if last.end == Some(piece.start) && last.deletion == piece.deletion => {
            last.end = piece.end;
        }
        _ => pieces.push(piece),
    }
}
