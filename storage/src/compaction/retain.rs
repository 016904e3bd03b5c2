//! The versions of one key that flush and compaction keep, so that each reader sees the same
//! value as before.
//!
//! In each stripe ([`crate::key::boundaries`]) the reader at its upper end sees one value, so
//! one version of the stripe is enough:
//!
//! ```text
//!   seq        1  2  3 | 4  5 | 6  7  8
//!   versions   1     3        6     8
//!   kept             3              8      the newest of each stripe
//!
//!   versions   put+1 +2  +3 | +4     | delete  +6  +7
//!   kept              put 6 | +4     |         put 13
//! ```
//!
//! Operands are folded within their stripe, and never onto a put that is expired for some of
//! its readers and not for others.
//!
//! [`Retain::kept`] also returns the boundaries for whose readers alone a version stays. When
//! the last of these boundaries is gone, the version is known to be garbage. Flush and merge
//! share this one rule.

use super::Purger;
use crate::key::{Boundaries, Kind, SeqNo, Version, stripe};
use crate::mutation::{self, Mutation};
use crate::read::{Base, Fold, Merger};

/// The rule by which flush and compaction drop versions of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retain<'a> {
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) merger: &'a Merger,
}

/// A version of a key that a flush or a merge keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptVersion {
    pub(crate) version: Version,
    /// The index, among the output runs, of the run that the version is written to; the oldest is
    /// 0.
    pub(crate) part: usize,
    /// The first and the last of the boundaries (commits at which readers read) that need the
    /// version. Later readers see a newer version or a range tombstone of the same run instead, so
    /// once these boundaries are gone, the version is garbage. `None` if nothing in this run hides
    /// the version: then it never counts as the run's garbage.
    pub(crate) only_for: Option<(SeqNo, SeqNo)>,
}

impl<'a> Retain<'a> {
    /// Returns the versions that [`Retain::versions`] keeps, newest first. Each comes with its
    /// output run, and with the boundaries (commits at which readers read) for which it is kept.
    /// The ascending sequence numbers `splits` cut the output into runs: versions numbered up to
    /// the first split go into run 0. `covering` and `bottom` are as in [`Retain::versions`].
    /// `versions` is empty afterwards. Versions that a `purger` removes are not returned.
    pub(crate) fn kept<'v>(
        self,
        key: &[u8],
        versions: &'v mut Vec<Version>,
        covering: &'v [SeqNo],
        bottom: bool,
        splits: &'v [SeqNo],
        purger: Option<&mut Purger<'_>>,
    ) -> impl Iterator<Item = KeptVersion> + use<'a, 'v> {
        self.versions(key, versions, covering, bottom);
        if let Some(purger) = purger {
            purger.purge(key, versions, bottom);
        }
        let mut newer = None;
        versions.drain(..).map(move |version| {
            let part = stripe(splits, version.seq);
            let newer = newer.replace(version.seq);
            let tombstone = covering.iter().rev().find(|&&seq| seq > version.seq);
            let tombstone =
                tombstone.filter(|_| !mutation::is(Mutation::OverlookKeptUnderRangeTombstones));
            let hider = newer.into_iter().chain(tombstone.copied()).min();
            let hider = hider.filter(|&hider| stripe(splits, hider) == part);
            KeptVersion {
                only_for: hider.and_then(|by| self.boundaries.needed_by(version.seq, by)),
                part,
                version,
            }
        })
    }

    /// Reduces one key's `versions` (newest first) to those that some reader can see: a reader at
    /// one of the boundaries (the commits at which readers read now), or a later reader. Between
    /// two neighbouring boundaries, operands are folded with each other and with the value below
    /// them, where that is possible. A put that is expired for all its readers becomes a tombstone.
    /// `covering` are the numbers of the range tombstones over the key, newest first; the run
    /// stores these tombstones apart from its versions.
    ///
    /// `bottom` is true if no older version of the key is anywhere else. Then the oldest versions
    /// are dropped if they are tombstones, because they hide nothing. If the oldest version left is
    /// an operand, it becomes a put, because there is no base to merge it with (unless this process
    /// lacks the table's merge operator).
    ///
    /// All other operands that cannot be folded stay as they are.
    pub(crate) fn versions(
        self,
        key: &[u8],
        versions: &mut Vec<Version>,
        covering: &[SeqNo],
        bottom: bool,
    ) {
        if let ([only], []) = (versions.as_slice(), covering)
            && only.kind == Kind::Put
        {
            return;
        }
        let all = std::mem::take(versions);
        let same_stripe = |a: &Version, b: &Version| {
            self.boundaries.stripe(a.seq) == self.boundaries.stripe(b.seq)
        };
        for stripe in all.chunk_by(same_stripe) {
            self.stripe(key, stripe, covering, versions);
        }
        let drops = mutation::replace(bottom, Mutation::DropTombstones, true);
        let drops = mutation::replace(drops, Mutation::KeepTombstones, false);
        while drops && versions.pop_if(|last| last.kind == Kind::Delete).is_some() {}
        let completes = mutation::replace(bottom, Mutation::CompleteOperands, true);
        if completes
            && let Some(last) = versions.last_mut()
            && last.kind == Kind::Merge
            && self.merger.is_known()
        {
            last.kind = Kind::Put;
        }
    }

    /// Adds the versions to `kept` that a flush or a merge keeps of `versions`: the versions of a
    /// key, newest first, in one stripe (the commits between two neighbouring boundaries).
    /// `versions` must not be empty. Operands are folded into one version where that is possible.
    /// `covering` are the numbers of the range tombstones over the key, newest first.
    fn stripe(self, key: &[u8], versions: &[Version], covering: &[SeqNo], kept: &mut Vec<Version>) {
        let newest = versions[0].seq;
        let stripe = self.boundaries.stripe(newest);
        let mut fold = Fold::new(self.boundaries.read_time(stripe));
        let mut covering = covering.iter();
        // The readers of this stripe do not see the range tombstones of newer stripes, and those of
        // older stripes hide only older versions.
        let hides = |seq: &&SeqNo| {
            let same_stripe = self.boundaries.stripe(**seq) == stripe;
            mutation::replace(same_stripe, Mutation::HideFromSnapshots, true)
        };
        if let Some(&tombstone) = covering.find(hides)
            && !mutation::is(Mutation::KeepUnderRangeTombstones)
        {
            fold.hide_below(tombstone);
        }
        let hidden = fold.hidden_below();
        let seen = versions.iter().take_while(|version| version.seq >= hidden);
        // Versions below the base are garbage. The taken ones all stay if they cannot be folded.
        let mut taken = 0;
        for version in seen {
            taken += 1;
            if fold.take(version.clone()) {
                break;
            }
        }
        let versions = &versions[..taken];
        let Some(last) = versions.last() else {
            // A range tombstone of the stripe hides all of them.
            return;
        };
        let (operands, base) = fold.into_parts();
        if operands.is_empty() {
            // A put that is expired for all its readers becomes a tombstone, because an older version
            // may be in another run.
            kept.push(match base {
                Base::Nothing => tombstone(last.seq),
                _ => last.clone(),
            });
            return;
        }
        let (below, kind) = match base {
            Base::Value(value) => (Some(value), Kind::Put),
            // As a put, the result hides older versions just as its deleted or expired base did.
            Base::Nothing => (None, Kind::Put),
            // The base is in an older stripe or another run, or is not the same for all readers.
            Base::Open | Base::Undecided => (None, Kind::Merge),
        };
        match self.merger.fold(key, &operands, below) {
            Ok(value) => {
                kept.push(Version {
                    // No reader stands within the stripe: each sees all of the operands or none.
                    seq: newest,
                    kind,
                    value,
                });
                // The put is expired for some readers only, so the operands cannot be folded onto it.
                if last.kind == Kind::ExpiringPut && kind == Kind::Merge {
                    kept.push(last.clone());
                }
            }
            // The operands stay as they are, so that every reader gets the operator's error.
            Err(_) => kept.extend_from_slice(versions),
        }
    }
}

fn tombstone(seq: SeqNo) -> Version {
    Version {
        seq,
        kind: Kind::Delete,
        value: Default::default(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
