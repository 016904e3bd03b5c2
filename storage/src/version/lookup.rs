//! A key that is looked up in one source after the other, newest first.

use bytes::Bytes;

use crate::error::Result;
use crate::key::{Kind, ReadTime, SeqNo};
use crate::memtable::{Entry, Memtable, version_of};
use crate::mutation::{self, Mutation};
use crate::read::{Fold, FoundSoFar, IsEnough, Merger};
use crate::runs::Run;
use crate::sstable::{ReadCounters, key_hash};

/// A reader that finds at least this many operands of a key in a memtable may store a fold of them
/// in the memtable, so that later readers need not fold them again.
const OPERANDS_TO_FOLD: usize = if cfg!(loom) { 2 } else { 8 };

/// A look-up of one key: the versions found so far, and its cost.
#[derive(Debug)]
pub(crate) struct Lookup<'k, 't> {
    key: &'k [u8],
    /// The hash of the key for filters; `None` until the first run is searched.
    hash: Option<u64>,
    fold: Fold<'t>,
    reads: ReadCounters,
    /// Whether the result is final, so that no older memtable or run need be read.
    is_done: bool,
    /// Whether a version of the key was found in any source so far.
    has_found: bool,
    /// Whether a version of the key was found since the last call of [`Self::take_changed`].
    has_changed: bool,
}

impl<'k, 't> Lookup<'k, 't> {
    pub(crate) fn new(key: &'k [u8], read_time: ReadTime<'t>) -> Self {
        Self {
            key,
            hash: None,
            fold: Fold::new(read_time),
            reads: ReadCounters::default(),
            is_done: false,
            has_found: false,
            has_changed: false,
        }
    }

    /// Returns the cost of the look-up so far.
    pub(crate) fn reads(&self) -> &ReadCounters {
        &self.reads
    }

    /// Returns the value of the key at the read time of the look-up; `None` if the key has none.
    ///
    /// # Errors
    /// As [`Fold::finish`].
    #[inline]
    pub(crate) fn finish(self, merger: &Merger) -> Result<Option<Bytes>> {
        self.fold.finish(self.key, merger)
    }

    /// Returns the look-ups that are not done.
    #[inline]
    pub(super) fn open(lookups: &mut [Self]) -> impl Iterator<Item = &mut Self> {
        lookups.iter_mut().filter(|lookup| !lookup.is_done)
    }

    pub(super) fn key(&self) -> &'k [u8] {
        self.key
    }

    /// Records that the next source to be read (a memtable or run) has a range tombstone with the
    /// number `tombstone` over the key: it hides the versions with smaller numbers.
    pub(super) fn hide_below(&mut self, tombstone: SeqNo) {
        self.fold.hide_below(tombstone);
    }

    /// Takes the versions of the key numbered `<= seq` from a run, as many as are needed.
    ///
    /// # Errors
    /// As [`Run::versions`].
    pub(super) fn take_of_run(&mut self, run: &Run, seq: SeqNo, merger: &Merger) -> Result<()> {
        let hash = *self.hash.get_or_insert_with(|| key_hash(self.key));
        let key = self.key;
        let Self { fold, reads, .. } = self;
        let mut has_any = false;
        let is_based = run.versions(key, hash, seq, reads, |version| {
            has_any = true;
            fold.take_bounded(version, key, merger)
        })?;
        self.note(has_any, is_based);
        Ok(())
    }

    /// Records whether a source had versions of the key, and whether the base, the newest version
    /// that is no operand, was among them. The base also counts as found if the operands cannot be
    /// folded: the look-up fails then, whatever is below them.
    fn note(&mut self, has_any: bool, is_based: bool) {
        self.is_done = is_based || self.fold.is_covered();
        self.has_found |= has_any;
        self.has_changed |= has_any;
    }

    /// Returns whether a version of any of the keys was found.
    pub(super) fn any_found(lookups: &[Self]) -> bool {
        lookups.iter().any(|lookup| lookup.has_found)
    }

    /// Returns whether further versions of any of the keys were found since the last call.
    pub(super) fn take_changed(lookups: &mut [Self]) -> bool {
        let take = |any, lookup: &mut Self| any | std::mem::take(&mut lookup.has_changed);
        lookups.iter_mut().fold(false, take)
    }

    /// Returns whether the reader needs no older sources, according to `enough`, which gets the
    /// values found so far and `greatest_left`, an upper bound of the timestamps in the remaining
    /// sources. Returns false without calling `enough` if the versions of a key cannot be merged
    /// yet.
    pub(super) fn are_enough(
        lookups: &mut [Self],
        greatest_left: i64,
        merger: &Merger,
        enough: IsEnough<'_>,
    ) -> bool {
        let so_far = |lookup: &mut Self| lookup.fold.so_far(lookup.key, merger);
        let values: Option<Vec<_>> = lookups.iter_mut().map(so_far).collect();
        values.is_some_and(|values| {
            enough(&FoundSoFar {
                values: &values,
                greatest_left,
            })
        })
    }

    /// Takes, for each look-up that is not done, the versions of its key numbered `<= seq` from a
    /// memtable, as many as are needed, and the number of the newest range tombstone `<= seq` over
    /// the key.
    pub(super) fn take_of_memtable(
        lookups: &mut [Self],
        memtable: &Memtable,
        seq: SeqNo,
        merger: &Merger,
    ) {
        // What was found for the key before, and that key.
        let (mut found, mut before): (Option<Entry<'_>>, &[u8]) = (None, &[]);
        for lookup in Self::open(lookups) {
            if let Some(tombstone) = memtable.covering(lookup.key, seq) {
                lookup.hide_below(tombstone);
            }
            let near = found.filter(|_| before < lookup.key);
            let seen = mutation::replace(seq, Mutation::TakeFoldsOfLaterOperands, SeqNo::MAX);
            found = memtable.seek(near, lookup.key, seen);
            before = lookup.key;
            let newest = found.filter(|entry| entry.key() == lookup.key);
            let is_based = newest.is_some_and(|newest| {
                lookup.take_from(newest, memtable, merger)
                    || !lookup.fold.make_room(0, lookup.key, merger)
            });
            lookup.note(newest.is_some(), is_based);
        }
    }

    /// Adds the versions of the key in a memtable, beginning with `newest`, the newest that the
    /// reader sees; returns true once a put or deletion is found, so that older versions do not
    /// matter.
    ///
    /// Many operands become one fold for later readers, who find it at the newest of them
    /// ([`Memtable::leave_fold`]). Only readers that see this operand use the fold, and it equals
    /// their own result. No version is added below the operand later, because every commit with a
    /// lower number has been applied or has failed. A range tombstone among the operands is seen by
    /// every reader that sees the newest operand. If the put below the operands may expire, the
    /// result depends on the time of the reader, and no fold is stored.
    fn take_from(&mut self, newest: Entry<'_>, memtable: &Memtable, merger: &Merger) -> bool {
        let Self { key, fold, .. } = self;
        let newer = fold.operands();
        let (mut operand_bytes, mut expires) = (0, false);
        let mut next = Some(newest);
        let is_based = loop {
            let Some(entry) = next.filter(|entry| entry.key() == *key) else {
                break false;
            };
            if let Some(left) = entry.fold() {
                break fold.take(version_of(left));
            }
            expires = entry.kind() == Kind::ExpiringPut;
            if fold.take(version_of(entry)) {
                break true;
            }
            operand_bytes += entry.value().len();
            next = entry.next();
        };
        if fold.operands() - newer >= OPERANDS_TO_FOLD
            && (!expires || mutation::is(Mutation::LeaveFoldsOfExpired))
            && let Some((kind, value)) = fold.fold_behind(newer, key, merger)
            // What grows with every operand is left again once it has doubled.
            && value.len() <= 2 * operand_bytes
        {
            memtable.leave_fold(newest, kind, &value);
        }
        is_based
    }
}
