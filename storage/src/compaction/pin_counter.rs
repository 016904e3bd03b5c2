//! Counting the bytes that snapshots pin: those that a merge of the whole table would drop without
//! one snapshot, and without all of them.
//!
//! ```text
//!   boundary         3     5
//!   versions    1  2 |  4  |  8      version 2 goes without boundary 3, version 4 without 5
//! ```
//!
//! A boundary separates two stripes. A merge without it treats both as one stripe and keeps the
//! same versions of all others, except for tombstones: the oldest go once nothing is below them.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::Retain;
use crate::key::{Boundaries, Kind, SeqNo, Version};
use crate::read::Merger;
use crate::runs::plain_bytes;

/// The size of the versions that only snapshots keep from being dropped (pin).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PinnedBytes {
    /// About how many bytes the versions take in SSTables. Versions in memory count as if they were
    /// flushed.
    pub file_bytes: u64,
    /// The bytes of the versions' keys and values, before compression.
    pub plain_bytes: u64,
}

impl AddAssign for PinnedBytes {
    fn add_assign(&mut self, more: Self) {
        self.file_bytes += more.file_bytes;
        self.plain_bytes += more.plain_bytes;
    }
}

/// Counts the bytes of versions that the snapshots of one table pin (keep from being dropped), key
/// by key.
#[derive(Debug)]
pub(crate) struct PinCounter<'a> {
    merger: &'a Merger,
    /// The boundaries (commits at which readers read, so that merges keep a version for each) of
    /// snapshots and views together.
    with: &'a Boundaries,
    /// The boundaries that would be left without the snapshots: those of the views.
    without: &'a Boundaries,
    /// For each lone snapshot, by the position of its boundary (its commit) in `with`: the two
    /// boundaries beside it, and the bytes that it pins alone. A snapshot is lone if no view and no
    /// other snapshot has the same boundary.
    alone: BTreeMap<usize, (Boundaries, PinnedBytes)>,
    /// The bytes that merges would drop in addition if the table had no snapshots: those that all
    /// of its snapshots together pin.
    together: PinnedBytes,
}

impl<'a> PinCounter<'a> {
    /// Returns a counter for a table. `with` are the boundaries of snapshots and views together,
    /// `without` those of the views alone. `lone` are the commits of the lone snapshots, ascending.
    /// A snapshot is lone if no view and no other snapshot is at the same commit.
    pub(crate) fn new(
        merger: &'a Merger,
        (with, without): (&'a Boundaries, &'a Boundaries),
        lone: impl Iterator<Item = SeqNo>,
    ) -> Self {
        let at = lone.map(|seq| with.stripe(seq));
        let alone = at.map(|at| (at, (with.joined_at(at), PinnedBytes::default())));
        Self {
            merger,
            with,
            without,
            alone: alone.collect(),
            together: PinnedBytes::default(),
        }
    }

    /// Returns the bytes that each lone snapshot (the only reader at its commit) pins alone, in the
    /// order of commits, and those that all snapshots of the table pin together.
    pub(crate) fn finish(self) -> (Vec<PinnedBytes>, PinnedBytes) {
        let alone = self.alone.into_values().map(|(_, pinned)| pinned);
        (alone.collect(), self.together)
    }

    /// Adds the bytes of one key that snapshots pin. `versions` are all versions of the key, newest
    /// first. `weights` has, for each version, the ratio of file size to uncompressed size in its
    /// run. `covering` are the numbers of the range tombstones over the key, newest first.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        versions: &[Version],
        weights: &[f64],
        covering: &[SeqNo],
    ) {
        // No merge treats a single version differently with and without snapshots, unless the
        // version expires: for a snapshot of an earlier time it may still be live.
        if let ([only], []) = (versions, covering)
            && only.kind != Kind::ExpiringPut
        {
            return;
        }
        let (merger, all) = (self.merger, self.with);
        let retained = |boundaries: &Boundaries, versions: &[Version], is_bottom: bool| {
            let mut left = versions.to_vec();
            Retain { boundaries, merger }.versions(key, &mut left, covering, is_bottom);
            left
        };
        // A retained version has the number of one of `versions`, so the 1.0 is never used.
        let weight = |seq: SeqNo| {
            let at = versions.binary_search_by(|version| seq.cmp(&version.seq));
            at.map_or(1.0, |at| weights[at])
        };
        // True: these are all versions of the key, so nothing lies below them.
        let before = retained(all, versions, true);
        let after = retained(self.without, versions, true);
        let pinned = gone(key, &before, &after, weight);
        if pinned == PinnedBytes::default() {
            // A version that one snapshot pins alone is pinned by all together.
            return;
        }
        self.together += pinned;
        let is_same = |a: &Version, b: &Version| all.stripe(a.seq) == all.stripe(b.seq);
        // A snapshot pins something only if a version is kept in the stripe below its boundary.
        for stripe in before.chunk_by(is_same) {
            let at = all.stripe(stripe[0].seq);
            let Some((joined, alone)) = self.alone.get_mut(&at) else {
                continue;
            };
            // The versions of the two stripes that the boundary separates.
            let beside = |versions: &[Version]| {
                let first = versions.partition_point(|version| all.stripe(version.seq) > at + 1);
                first..versions.partition_point(|version| all.stripe(version.seq) >= at)
            };
            let mut changed = beside(&before);
            // Versions of older stripes stay, so they are below these two also without the boundary.
            let is_bottom = changed.end == before.len();
            let after = retained(joined, &versions[beside(versions)], is_bottom);
            // With nothing left below them, the tombstones of newer stripes would go, too.
            if is_bottom && after.is_empty() {
                let newer = before[..changed.start].iter().rev();
                let tombstones = newer.take_while(|version| version.kind == Kind::Delete);
                changed.start -= tombstones.count();
            }
            *alone += gone(key, &before[changed], &after, weight);
        }
    }
}

/// Returns the bytes that a key saves if its versions `before` are reduced to the versions `after`:
/// uncompressed, and in files. `weight` returns, for a version, the ratio of file size to
/// uncompressed size. The saving in files is estimated by the weights of the versions that are
/// gone, and of those whose size changed because operands were folded into them.
fn gone(
    key: &[u8],
    before: &[Version],
    after: &[Version],
    weight: impl Fn(SeqNo) -> f64,
) -> PinnedBytes {
    let size = |version: &Version| plain_bytes(key, &version.value);
    let total = |versions: &[Version]| versions.iter().map(size).sum::<u64>();
    let changes = |version: &&Version| {
        let same = after.binary_search_by(|other| version.seq.cmp(&other.seq));
        !same.is_ok_and(|at| size(&after[at]) == size(version))
    };
    let (mut changed_bytes, mut changed_file_bytes) = (0_u64, 0.0_f64);
    for version in before.iter().filter(changes) {
        changed_bytes += size(version);
        changed_file_bytes += size(version) as f64 * weight(version.seq);
    }
    let plain_bytes = total(before).saturating_sub(total(after));
    let share = plain_bytes as f64 / changed_bytes.max(1) as f64;
    PinnedBytes {
        file_bytes: (changed_file_bytes * share).round() as u64,
        plain_bytes,
    }
}
