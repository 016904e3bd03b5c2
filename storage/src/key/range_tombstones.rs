//! Range tombstones: deletions of whole ranges of keys.
//!
//! Those of one source (a memtable, a run) are kept cut into *fragments* that do
//! not overlap, each with the numbers of all tombstones over it:
//!
//! ```text
//!   deleted    [a ───────── m) 4      [f ──────── t) 9
//!   fragments  [a, f) 4     [f, m) 9 4     [m, t) 9
//! ```
//!
//! so that one search finds all that covers a key. A tombstone hides what is
//! numbered lower: in its own source by its number, in older sources all.

use std::sync::Arc;

use bytes::Bytes;

use crate::key::{Boundaries, KeyRange, SeqNo, is_before, stripe};
use crate::mutation::{self, Mutation};

/// A range over which the same tombstones lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Not empty.
    pub(crate) range: KeyRange,
    /// Newest first, at least one.
    pub(crate) seqs: Vec<SeqNo>,
}

/// The range tombstones of one source. Clones share the fragments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeTombstones {
    /// Ascending, not overlapping.
    fragments: Vec<Arc<Fragment>>,
}

impl RangeTombstones {
    /// Adds tombstones of these numbers, newest first, over a range.
    pub(crate) fn insert(&mut self, range: &KeyRange, seqs: &[SeqNo]) {
        if range.is_empty() {
            return;
        }
        let first = self
            .fragments
            .partition_point(|f| !is_before(&range.start, f.range.end.as_ref()));
        let mut pieces = Vec::new();
        let mut add = |start: &Bytes, end: Option<&Bytes>, seqs: Vec<SeqNo>| {
            let range = KeyRange {
                start: start.clone(),
                end: end.cloned(),
            };
            if !range.is_empty() {
                pieces.push(Arc::new(Fragment { range, seqs }));
            }
        };
        // Up to where the range is dealt with; `None` is to the end of all keys.
        let mut done = Some(&range.start);
        let mut after = first;
        for fragment in &self.fragments[first..] {
            let Fragment {
                range: old,
                seqs: under,
            } = &**fragment;
            if !is_before(&old.start, range.end.as_ref()) {
                break;
            }
            after += 1;
            let from = done.expect("no fragment lies behind all keys");
            add(&old.start, Some(from), under.clone());
            add(from, Some(&old.start), seqs.to_vec());
            let end = if is_before_end(old.end.as_ref(), range.end.as_ref()) {
                old.end.as_ref()
            } else {
                range.end.as_ref()
            };
            add(from.max(&old.start), end, merged(under, seqs));
            if let Some(end) = end {
                add(end, old.end.as_ref(), under.clone());
            }
            done = end;
        }
        if let Some(from) = done {
            add(from, range.end.as_ref(), seqs.to_vec());
        }
        self.fragments.splice(first..after, pieces);
    }

    /// These and those of another source.
    pub(crate) fn insert_all(&mut self, other: &Self) {
        for fragment in &other.fragments {
            self.insert(&fragment.range, &fragment.seqs);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    pub(crate) fn fragments(&self) -> &[Arc<Fragment>] {
        &self.fragments
    }

    /// How many numbers there are, over all fragments.
    pub(crate) fn count(&self) -> u64 {
        self.seqs().count() as u64
    }

    /// All numbers, in no order.
    pub(crate) fn seqs(&self) -> impl Iterator<Item = SeqNo> + '_ {
        self.fragments.iter().flat_map(|f| f.seqs.iter().copied())
    }

    /// The numbers of the tombstones over a key, newest first.
    pub(crate) fn over(&self, key: &[u8]) -> &[SeqNo] {
        let after = self.fragments.partition_point(|f| *f.range.start <= *key);
        match after.checked_sub(1).map(|at| &self.fragments[at]) {
            Some(fragment) if fragment.range.contains(key) => &fragment.seqs,
            _ => &[],
        }
    }

    /// The newest tombstone over a key that a reader at `seq` sees.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        self.over(key)
            .iter()
            .copied()
            .find(|&tombstone| tombstone <= seq)
    }

    /// Whether a tombstone lies over some key of a range.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.reaching(range).next().is_some()
    }

    /// Whether every key of a range lies under a fragment whose oldest number
    /// fits.
    pub(crate) fn cover(&self, range: &KeyRange, fits: impl Fn(SeqNo) -> bool) -> bool {
        let mut from = Some(&range.start);
        for fragment in self.reaching(range) {
            let oldest = *fragment.seqs.last().expect("at least one number");
            if from.is_some_and(|from| fragment.range.start > *from) || !fits(oldest) {
                return false;
            }
            from = fragment.range.end.as_ref();
        }
        match (from, range.end.as_ref()) {
            (None, _) => true,
            (Some(from), Some(end)) => from >= end,
            (Some(_), None) => false,
        }
    }

    /// The fragments that overlap a range.
    fn reaching<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Arc<Fragment>> {
        let first = self
            .fragments
            .partition_point(|f| !is_before(&range.start, f.range.end.as_ref()));
        let reaching = self.fragments[first..].iter();
        reaching.take_while(|f| f.range.overlaps(range))
    }

    /// The range from the first to the last; `None` when there are none.
    pub(crate) fn bounds(&self) -> Option<KeyRange> {
        let (first, last) = (self.fragments.first()?, self.fragments.last()?);
        Some(first.range.hull(&last.range))
    }

    /// What flush and compaction keep: of each fragment and stripe the newest.
    /// The oldest of a fragment goes when no boundary lies below it (what it
    /// hides of the same sources goes with it) and no older source
    /// `has_older` anything in its range.
    pub(crate) fn retained(
        &self,
        boundaries: &Boundaries,
        has_older: impl Fn(&KeyRange) -> bool,
    ) -> Self {
        let retain = |fragment: &Arc<Fragment>| {
            let mut seqs = fragment.seqs.clone();
            seqs.dedup_by_key(|seq| boundaries.stripe(*seq));
            let below = has_older(&fragment.range) && !mutation::is(Mutation::DropRangeTombstones);
            let is_first = |seq: SeqNo| {
                boundaries.stripe(seq) == 0
                    || mutation::is(Mutation::DropRangeTombstonesOfSnapshots)
            };
            let hides_nothing = |oldest: &mut SeqNo| is_first(*oldest) && !below;
            seqs.pop_if(hides_nothing);
            (fragment.range.clone(), seqs)
        };
        Self::joined(self.fragments.iter().map(retain))
    }

    /// Those of each stratum between the ascending `splits`, oldest first.
    pub(crate) fn split(&self, splits: &[SeqNo]) -> Vec<Self> {
        let part = |at: usize| {
            let of_part = |fragment: &Arc<Fragment>| {
                let seqs = fragment.seqs.iter().copied();
                let seqs = seqs.filter(|&seq| stripe(splits, seq) == at).collect();
                (fragment.range.clone(), seqs)
            };
            Self::joined(self.fragments.iter().map(of_part))
        };
        (0..=splits.len()).map(part).collect()
    }

    /// Fragments in order, those without a number left out, neighbours with the
    /// same numbers made one.
    fn joined(parts: impl Iterator<Item = (KeyRange, Vec<SeqNo>)>) -> Self {
        let mut joined: Vec<Fragment> = Vec::new();
        for (range, seqs) in parts.filter(|(_, seqs)| !seqs.is_empty()) {
            match joined.last_mut() {
                Some(last)
                    if last.seqs == seqs && last.range.end.as_ref() == Some(&range.start) =>
                {
                    last.range.end = range.end;
                }
                _ => joined.push(Fragment { range, seqs }),
            }
        }
        Self {
            fragments: joined.into_iter().map(Arc::new).collect(),
        }
    }

    /// Fragments as they are, which must ascend and not overlap.
    pub(crate) fn from_fragments(fragments: Vec<Fragment>) -> Self {
        Self {
            fragments: fragments.into_iter().map(Arc::new).collect(),
        }
    }
}

/// Whether one end of a range lies before another; `None` is the last of all.
fn is_before_end(a: Option<&Bytes>, b: Option<&Bytes>) -> bool {
    a.is_some_and(|a| is_before(a, b))
}

/// Two lists of numbers, newest first, as one.
fn merged(a: &[SeqNo], b: &[SeqNo]) -> Vec<SeqNo> {
    let mut all = [a, b].concat();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all
}

#[cfg(all(test, not(loom)))]
mod tests;
