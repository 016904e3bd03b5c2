//! An estimate of the bytes that snapshots pin because a newer run hides them, from the sketches of
//! the runs' keys. For versions that are hidden in their own run,
//! [`KeptFor`](crate::runs::KeptFor) has the bytes.
//!
//! Each run counts for the stripe between bookmarks in which the middle of its commits lies.
//! Snapshots pin the keys of a stripe that newer stripes have, too.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::estimate::share;
use crate::key::{SeqNo, stripe};
use crate::runs::Run;
use crate::sstable::KeySketch;

/// An estimated number of bytes of files.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PinEstimate {
    pub(crate) bytes: u64,
    /// The standard error of the estimate, which comes from sketches of the keys.
    pub(crate) error_bytes: u64,
}

impl PinEstimate {
    pub(crate) fn exactly(bytes: u64) -> Self {
        Self {
            bytes,
            error_bytes: 0,
        }
    }
}

impl AddAssign for PinEstimate {
    fn add_assign(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.error_bytes = self.error_bytes.saturating_add(more.error_bytes);
    }
}

/// The estimated bytes of a table that its snapshots pin.
#[derive(Debug, Default)]
pub(crate) struct PinEstimates {
    /// For each bookmark (a commit at which snapshots read), the bytes that are kept for this
    /// bookmark alone. A bookmark without such bytes may be missing.
    pub(crate) alone: BTreeMap<SeqNo, PinEstimate>,
    pub(crate) together: PinEstimate,
}

/// The keys and bytes of the runs of one stripe together, without runs that range tombstones
/// of a newer stripe delete as a whole. A stripe is the range of sequence numbers between two
/// successive bookmarks (commits at which snapshots read), before the first one, or after the last
/// one. A run belongs to the stripe that contains the middle of the run's own range of sequence
/// numbers.
#[derive(Default)]
struct Stripe {
    keys: KeySketch,
    /// The sum, over the runs, of the number of different keys in each run.
    distinct: u64,
    /// The bytes of the runs, without the versions that a newer version or a range tombstone of the
    /// same run hides.
    bytes: u64,
}

/// Estimates how many bytes of `runs` (newest first) are kept only for snapshots, because newer
/// runs hide them from all other readers. Versions that are hidden in their own run do not count
/// here. `bookmarks` are the sequence numbers at which the snapshots read, ascending.
pub(crate) fn pin_estimates(runs: &[&Run], bookmarks: &[SeqNo]) -> PinEstimates {
    let mut estimates = PinEstimates::default();
    if runs.len() < 2 || bookmarks.is_empty() {
        return estimates;
    }
    let mut stripes: BTreeMap<usize, Stripe> = BTreeMap::new();
    for (place, run) in runs.iter().enumerate() {
        let (meta, keys) = (run.meta(), run.key_sketch());
        let middle = meta.smallest_seq.0.midpoint(meta.largest_seq.0);
        let at = stripe(bookmarks, SeqNo(middle));
        let bytes = meta.bytes().saturating_sub(meta.hidden_bytes(|_| true));
        let bounds = run.bounds();
        let is_deleted = |by: fn(usize, usize) -> bool| {
            let fits = |seq| by(stripe(bookmarks, seq), at);
            let mut newer = runs[..place].iter();
            newer.any(|newer| (newer.range_tombstones()).is_some_and(|it| it.cover(&bounds, fits)))
        };
        if is_deleted(|other, at| other > at) {
            let all = PinEstimate::exactly(bytes);
            estimates.together += all;
            if is_deleted(|other, at| other == at + 1) {
                *estimates.alone.entry(bookmarks[at]).or_default() += all;
            }
            continue;
        }
        let of = stripes.entry(at).or_default();
        of.bytes = of.bytes.saturating_add(bytes);
        of.distinct = of.distinct.saturating_add(keys.distinct());
        of.keys.union(&keys);
    }
    let mut newer = KeySketch::default();
    let mut above: Option<(usize, &Stripe)> = None;
    for (&at, of) in stripes.iter().rev() {
        if let Some((above_at, above)) = above {
            estimates.together += of.pinned_by(&newer);
            if above_at == at + 1 {
                let alone = of.pinned_by(&above.keys);
                *estimates.alone.entry(bookmarks[at]).or_default() += alone;
            }
        }
        newer.union(&of.keys);
        above = Some((at, of));
    }
    estimates
}

impl Stripe {
    /// Estimates how many bytes of this stripe only snapshots keep, because newer stripes have
    /// newer versions of the same keys. `keys` is a sketch of the newer stripes' keys.
    fn pinned_by(&self, keys: &KeySketch) -> PinEstimate {
        let mut union = keys.clone();
        union.union(&self.keys);
        let all = union.distinct();
        let each = keys.distinct().saturating_add(self.keys.distinct());
        let both = each.saturating_sub(all);
        let of_keys = |keys| share(self.bytes, keys, self.distinct).min(self.bytes);
        PinEstimate {
            bytes: of_keys(both),
            error_bytes: of_keys(KeySketch::error(all)),
        }
    }
}
