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
//! so that one search finds all tombstones over a key. A tombstone hides the lower numbers of
//! its own source, and all versions in older sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{Boundaries, KeyRange, SeqNo, is_before, stripe};
use crate::mutation::{self, Mutation};

/// The most pieces of range tombstones (fragments, or intervals of a sorted index) that a scan
/// compares with the key range of a run to find out whether they hide the whole run. Each scan does
/// this for each run, and a table that is used as a queue has thousands of adjacent pieces. To compare
/// 256 takes a few microseconds, about as long as a seek in the run. A run under more pieces counts
/// as not hidden: the scan reads it, which is slower but always right.
pub(crate) const PIECES_MAX: usize = 256;

/// A deletion of all keys in a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    pub(crate) range: KeyRange,
    pub(crate) seq: SeqNo,
}

/// A key range within which no tombstone begins or ends, with the tombstones that cover all its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The deleted keys; never empty.
    pub(crate) range: KeyRange,
    /// The sequence numbers of the tombstones, newest first, at least one.
    pub(crate) seqs: Vec<SeqNo>,
}

/// The range tombstones of one source (a memtable or a run), cut into fragments. Clones share the
/// fragments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeTombstones {
    /// The fragments, ascending, not overlapping.
    fragments: Vec<Arc<Fragment>>,
}

impl RangeTombstones {
    /// Cuts tombstones, in any order, into fragments (key ranges within which no tombstone begins
    /// or ends), each with the sequence numbers of its tombstones. Of those between two
    /// neighbouring `boundaries` (sequence numbers at which readers read), only the newest is kept,
    /// because no reader needs an older one. Without boundaries all are kept.
    ///
    /// For n tombstones, this takes time O(n log n), and more for each sequence number in the result.
    /// (Without boundaries the result may have n² numbers, if n ranges begin at the same key and end
    /// at different ones.)
    pub(crate) fn build(
        tombstones: impl IntoIterator<Item = RangeTombstone>,
        boundaries: Option<&Boundaries>,
    ) -> Self {
        // Where tombstones begin and end; those without an end stay until the sweep is over.
        let mut edges: Vec<(Bytes, bool, SeqNo)> = Vec::new();
        let mut has_unbounded = false;
        for RangeTombstone { range, seq } in tombstones {
            if range.is_empty() {
                continue;
            }
            edges.push((range.start, true, seq));
            match range.end {
                Some(end) => edges.push((end, false, seq)),
                None => has_unbounded = true,
            }
        }
        edges.sort_unstable();
        // How often each number lies over the current keys: two sources may have the same
        // tombstone.
        let mut over: BTreeMap<SeqNo, usize> = BTreeMap::new();
        let mut pieces = Vec::new();
        let mut edges = edges.into_iter().peekable();
        while let Some((start, begins, seq)) = edges.next() {
            if begins {
                *over.entry(seq).or_default() += 1;
            } else {
                let times = over.get_mut(&seq).expect("it began before it ends");
                *times -= 1;
                if *times == 0 {
                    over.remove(&seq);
                }
            }
            let end = match edges.peek() {
                Some((next, ..)) if *next == start => continue,
                Some((next, ..)) => Some(next.clone()),
                None if has_unbounded => None,
                None => break,
            };
            pieces.push((KeyRange { start, end }, kept(&over, boundaries)));
        }
        Self::joined(pieces.into_iter())
    }

    /// Returns the tombstones, cut at each other's ends into fragments: one tombstone for each
    /// fragment and each sequence number in it, with the key range of the fragment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|fragment| {
            let of_seq = |&seq: &SeqNo| RangeTombstone {
                range: fragment.range.clone(),
                seq,
            };
            fragment.seqs.iter().map(of_seq)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    pub(crate) fn fragments(&self) -> &[Arc<Fragment>] {
        &self.fragments
    }

    /// Returns the number of sequence numbers in all fragments together.
    pub(crate) fn count(&self) -> u64 {
        self.seqs().count() as u64
    }

    /// Returns the sequence numbers of the tombstones in all fragments, in no order.
    pub(crate) fn seqs(&self) -> impl Iterator<Item = SeqNo> + '_ {
        self.fragments.iter().flat_map(|f| f.seqs.iter().copied())
    }

    /// Returns the sequence numbers of the tombstones over a key, newest first.
    pub(crate) fn over(&self, key: &[u8]) -> &[SeqNo] {
        let after = self.fragments.partition_point(|f| *f.range.start <= *key);
        match after.checked_sub(1).map(|at| &self.fragments[at]) {
            Some(fragment) if fragment.range.contains(key) => &fragment.seqs,
            _ => &[],
        }
    }

    /// Returns the sequence number of the newest tombstone over a key that a reader at `seq` sees;
    /// `None` if there is none.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        newest_seen(self.over(key), seq)
    }

    /// Returns whether a tombstone lies over some key of a range.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.reaching(range).next().is_some()
    }

    /// Returns whether tombstones cover every key of a range, and `fits` returns true for the sequence
    /// number of the oldest tombstone of each fragment that overlaps the range.
    pub(crate) fn cover(&self, range: &KeyRange, fits: impl Fn(SeqNo) -> bool) -> bool {
        self.covered_by(range, |seqs| {
            fits(*seqs.last().expect("at least one number"))
        })
    }

    /// Returns whether tombstones cover every key of a range so that a reader at `seq` sees none of its
    /// versions up to `largest_seq`: each key needs a tombstone above `largest_seq`, and not above `seq`.
    /// Returns false, too, if more than [`PIECES_MAX`] fragments overlap the range.
    pub(crate) fn hide(&self, range: &KeyRange, largest_seq: SeqNo, seq: SeqNo) -> bool {
        let beyond = self.fragments.get(self.first_reaching(range) + PIECES_MAX);
        beyond.is_none_or(|f| !f.range.overlaps(range))
            && self.covered_by(range, |seqs| newest_seen(seqs, seq) > Some(largest_seq))
    }

    /// Returns whether every key of a range lies in a fragment, and `fits` returns true for the sequence
    /// numbers (newest first) of each of these fragments.
    fn covered_by(&self, range: &KeyRange, fits: impl Fn(&[SeqNo]) -> bool) -> bool {
        let mut from = Some(&range.start);
        for fragment in self.reaching(range) {
            if from.is_some_and(|from| fragment.range.start > *from) || !fits(&fragment.seqs) {
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

    /// Returns the fragments that overlap a range.
    fn reaching<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Arc<Fragment>> {
        let reaching = self.fragments[self.first_reaching(range)..].iter();
        reaching.take_while(|f| f.range.overlaps(range))
    }

    /// Returns the position of the first fragment that ends after the start of a range.
    fn first_reaching(&self, range: &KeyRange) -> usize {
        self.fragments
            .partition_point(|f| !is_before(&range.start, f.range.end.as_ref()))
    }

    /// Returns the range from the start of the first fragment to the end of the last one; `None` if there are
    /// no fragments.
    pub(crate) fn bounds(&self) -> Option<KeyRange> {
        let (first, last) = (self.fragments.first()?, self.fragments.last()?);
        Some(first.range.hull(&last.range))
    }

    /// Returns the tombstones that flush and compaction keep: of each fragment (a key range within
    /// which no tombstone begins or ends), the newest tombstone of each stripe (the commits between
    /// two neighbouring boundaries).
    ///
    /// The oldest of these tombstones is dropped, too, if no boundary is below it, and `has_older`
    /// returns false for the key range of the fragment: no older source has versions there. Then
    /// this tombstone could only hide versions in the input of the flush or merge, which drops them
    /// anyway.
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

    pub(crate) fn memory_bytes(&self) -> usize {
        let fragment = |fragment: &Arc<Fragment>| {
            let KeyRange { start, end } = &fragment.range;
            // With the two counts beside what an `Arc` points to.
            let own = size_of::<Fragment>() + 3 * size_of::<usize>();
            let keys = start.len() + end.as_ref().map_or(0, Bytes::len);
            own + keys + size_of_val(&*fragment.seqs)
        };
        self.fragments.iter().map(fragment).sum()
    }

    /// Divides the tombstones by their sequence numbers at the ascending `splits`, and returns the
    /// parts, oldest first. A tombstone whose number is a split is in the part below the split.
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

    /// Returns the tombstones that overlap a range of keys, cut to this range.
    pub(crate) fn within(&self, range: &KeyRange) -> Self {
        let within = |fragment: &Arc<Fragment>| {
            let range = fragment.range.intersection(range);
            (range, fragment.seqs.clone())
        };
        Self::joined(self.reaching(range).map(within))
    }

    /// Makes fragments of ascending key ranges, each with the sequence numbers of the tombstones over
    /// it. Leaves out ranges without tombstones, and joins adjacent ranges that have the same numbers.
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
        Self::from_fragments(joined)
    }

    /// Creates tombstones from fragments, which must ascend and not overlap.
    pub(crate) fn from_fragments(fragments: Vec<Fragment>) -> Self {
        Self {
            fragments: fragments.into_iter().map(Arc::new).collect(),
        }
    }
}

/// Returns the newest of the sequence numbers `seqs` (newest first) that a reader at `seq` sees;
/// `None` if the reader sees none.
fn newest_seen(seqs: &[SeqNo], seq: SeqNo) -> Option<SeqNo> {
    let newer = seqs.partition_point(|&tombstone| tombstone > seq);
    seqs.get(newer).copied()
}

/// Returns the sequence numbers that are the keys of `over`, newest first. Without `boundaries`,
/// returns all of them; with `boundaries`, only the newest between two neighbouring boundaries.
fn kept(over: &BTreeMap<SeqNo, usize>, boundaries: Option<&Boundaries>) -> Vec<SeqNo> {
    let Some(boundaries) = boundaries else {
        return over.keys().rev().copied().collect();
    };
    let mut kept = Vec::new();
    let mut up_to = Some(SeqNo::MAX);
    while let Some(seq) = up_to.and_then(|up_to| over.range(..=up_to).next_back()) {
        kept.push(*seq.0);
        up_to = boundaries.below(*seq.0);
    }
    kept
}

#[cfg(all(test, not(loom)))]
mod tests;
