//! Purging of values that carry timestamps of their own: a merge drops the part of a value
//! that the table's merge operator ([`MergeOperator::purge`]) permits.
//!
//! ```text
//!   versions of a key ── Retain ──► one for each stripe ── Purger ──► what stays of them
//! ```
//!
//! A deletion that is dropped too early brings back what it deleted. It is dropped only when its
//! timestamp is below all other timestamps that a reader could see together with it:
//!
//! - of every run that is not merged here, newer or older, and of every memtable;
//! - of the versions of its key that stay for other readers, in other stripes;
//! - for the deletion of a *head*, which deletes in all of its group, those of the whole
//!   group. It is dropped only if all commits of the merged runs are in one stripe, so that every
//!   value of the group in these runs is purged under this head.
//!
//! Unknown timestamps count as the least. Only merges purge: the values that a flush writes
//! are seldom old enough.

use std::sync::Arc;

use bytes::Bytes;

use crate::key::{Boundaries, KeyRange, Kind, SeqNo, Version, is_before};
use crate::mutation::{self, Mutation};
use crate::read::{MergeOperator, Merger, PurgeContext, Purged, timestamps_of};
use crate::runs::Run;

/// The parts of a table that a merge does not read.
#[derive(Debug)]
pub(crate) struct OtherParts {
    pub(crate) runs: Vec<Arc<Run>>,
    /// A lower bound of the timestamps in the memtables; [`i64::MAX`] if they have none.
    pub(crate) least_in_memory: i64,
}

impl OtherParts {
    fn least_of_key(&self, key: &[u8]) -> i64 {
        self.least(key, |first| first <= key)
    }

    fn least_of_prefix(&self, prefix: &[u8]) -> i64 {
        let end = KeyRange::prefix(prefix).end;
        self.least(prefix, |first| is_before(first, end.as_ref()))
    }

    /// Returns a lower bound of the timestamps in these parts for a range of keys; [`i64::MAX`] if
    /// there are none, [`i64::MIN`] if some are unknown. The range begins at `start`, and `has`
    /// returns whether a key lies before its end. All timestamps in memtables count, because
    /// memtables have one bound for all keys.
    fn least(&self, start: &[u8], has: impl Fn(&[u8]) -> bool) -> i64 {
        let runs = self.runs.iter();
        let runs = runs.map(|run| run.least_timestamp(start, &has));
        let in_memory = mutation::replace(
            self.least_in_memory,
            Mutation::PurgeBesideMemtables,
            i64::MAX,
        );
        runs.min().unwrap_or(i64::MAX).min(in_memory)
    }
}

/// Drops parts of the values that one merge writes, key by key, as far as the table's merge
/// operator permits: expired content, and deletions that hide nothing any more.
#[derive(Debug)]
pub(crate) struct Purger<'a> {
    table: &'a str,
    operator: &'a dyn MergeOperator,
    boundaries: &'a Boundaries,
    other_parts: &'a OtherParts,
    /// Whether all commits of the merged runs are in one stripe (the commits between two
    /// neighbouring boundaries), so that no reader sees only some of them.
    is_one_stripe: bool,
    /// The group (keys with a common prefix, such as the rows of a partition) of the last key that
    /// belongs to a group; `None` before the first such key.
    group: Option<OpenGroup>,
    has_failed: bool,
}

/// The group (keys with a common prefix) of the last purged key that belongs to a group.
#[derive(Debug)]
struct OpenGroup {
    prefix: Vec<u8>,
    /// The values of the group's head, the key whose value can delete content of all keys of the
    /// group. Each item is the index of a stripe (the commits between two neighbouring boundaries)
    /// and the value that the readers of this stripe see. The values are not purged: purging may
    /// drop a deletion from the head, and this deletion is still needed to purge the group's other
    /// keys. Empty if the group's first key is no head, or has operands that cannot be folded.
    heads: Vec<(usize, Bytes)>,
    is_head_purged: bool,
}

impl<'a> Purger<'a> {
    /// Returns a purger for a merge whose commits have the sequence numbers `span` (the first and
    /// the last); `None` if this process has no merge operator for the table.
    pub(crate) fn new(
        merger: &'a Merger,
        boundaries: &'a Boundaries,
        other_parts: &'a OtherParts,
        span: (SeqNo, SeqNo),
    ) -> Option<Self> {
        let is_one_stripe = boundaries.stripe(span.0) == boundaries.stripe(span.1);
        Some(Self {
            table: merger.table(),
            operator: merger.operator()?,
            boundaries,
            other_parts,
            is_one_stripe: mutation::replace(is_one_stripe, Mutation::PurgeHeadsOfSnapshots, true),
            group: None,
            has_failed: false,
        })
    }

    /// Returns true if a value of a group could not be purged although the group's head was purged
    /// before. (The head is the key whose value can delete content of the group's other keys.)
    /// Content of that value that the head had deleted might come back, so the output of the merge
    /// must be discarded.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns whether a part of the merge may end before a key, for another part to go on from
    /// there. Returns false within a group (keys with a common prefix) if the group's head, its
    /// first key, was purged: values that the head deleted would come back until that other part is
    /// done.
    pub(crate) fn may_end_before(&self, key: &[u8]) -> bool {
        let is_in = |open: &OpenGroup| open.is_head_purged && key.starts_with(&open.prefix);
        !self.group.as_ref().is_some_and(is_in) || mutation::is(Mutation::EndInGroups)
    }

    /// Drops the content that no reader needs from `versions`, the retained versions of a key,
    /// newest first. Keys must come in ascending order. `bottom` is true if no older version of the
    /// key is anywhere else.
    pub(crate) fn purge(&mut self, key: &[u8], versions: &mut Vec<Version>, bottom: bool) {
        let stripes: Vec<_> = versions
            .iter()
            .map(|version| self.boundaries.stripe(version.seq))
            .collect();
        // At most one version of each stripe. Operands that cannot be folded leave more.
        let is_folded = stripes.is_sorted_by(|newer, older| newer > older);
        let group = self.operator.group(key);
        let is_head = group.is_some_and(|group| group.is_head);
        let mut is_first = false;
        let mut is_member = false;
        if let Some(group) = group {
            // The keys of a group follow each other, because they share a prefix.
            is_first = (self.group.as_ref()).is_none_or(|open| open.prefix != group.prefix);
            is_member = !is_head;
            if is_first {
                let heads = stripes.iter().copied().zip(versions.iter());
                let heads = heads.filter(|(_, version)| is_head && has_value(version));
                let heads = heads.map(|(stripe, version)| (stripe, version.value.clone()));
                self.group = Some(OpenGroup {
                    prefix: group.prefix.to_vec(),
                    // Of several versions in a stripe none is the value that readers see.
                    heads: heads.filter(|_| is_folded).collect(),
                    is_head_purged: false,
                });
            }
        }
        let is_under_purged =
            is_member && self.group.as_ref().is_some_and(|open| open.is_head_purged);
        // A head is purged only if it is the first key of its group, so that all members come after
        // it and are purged under it, and only in a merge of one stripe. Otherwise a value that the
        // head deletes could stay without the head, and come back.
        if is_head && !(is_first && self.is_one_stripe) {
            return;
        }
        // Of several versions in a stripe none is the value that readers see, and the timestamps in
        // a value with an expiry of the engine are not known. So neither is purged. If the head of
        // the group is purged already, the output of the merge is discarded.
        if !is_folded || versions.iter().any(|v| v.kind == Kind::ExpiringPut) {
            self.has_failed |= is_under_purged;
            return;
        }
        let other_parts = match group {
            Some(group) if is_head && !mutation::is(Mutation::PurgeHeadsAlone) => {
                self.other_parts.least_of_prefix(group.prefix)
            }
            _ => self.other_parts.least_of_key(key),
        };
        let beside = self.least_beside(key, versions);
        let mut gone = Vec::new();
        for (at, version) in versions.iter_mut().enumerate() {
            if !has_value(version) {
                continue;
            }
            let context = PurgeContext {
                table: self.table,
                read_time_ms: self.boundaries.judged_ms(stripes[at]),
                oldest_elsewhere: other_parts.min(beside[at]),
                head: self.head(is_member, stripes[at]),
            };
            match self.operator.purge(key, &version.value, &context) {
                Ok(Purged::Kept) => continue,
                Ok(Purged::Rewritten(value)) => version.value = value.into(),
                Ok(Purged::Gone) => gone.push(version.seq),
                // The operator finds a fault in the value, which stays as it is.
                Err(_) => {
                    self.has_failed |= is_under_purged;
                    continue;
                }
            }
            if let Some(open) = self.group.as_mut().filter(|_| is_head) {
                open.is_head_purged = true;
                if mutation::is(Mutation::PurgeUnderPurgedHeads) {
                    open.heads.clear();
                }
            }
        }
        versions.retain_mut(|version| {
            if !gone.contains(&version.seq) {
                return true;
            }
            // A put hides the versions below it, and must go on hiding them. An operand hides none.
            let hides = version.kind == Kind::Put && !mutation::is(Mutation::UncoverUnderPurged);
            version.kind = Kind::Delete;
            version.value = Bytes::new();
            hides
        });
        // At the bottom tombstones hide nothing, as in `Retain::versions`. Purging has made some.
        while bottom && versions.pop_if(|last| last.kind == Kind::Delete).is_some() {}
    }

    /// Returns the value of the group's head (the key whose value can delete content of the group's
    /// other keys) that the readers of a stripe (the commits between two neighbouring boundaries)
    /// see; `None` if there is none, or the key is no member of the group (`is_member` is false).
    fn head(&self, is_member: bool, stripe: usize) -> Option<&[u8]> {
        let open = self.group.as_ref().filter(|_| is_member)?;
        let any = mutation::is(Mutation::PurgeUnderLaterHeads);
        let mut heads = open.heads.iter();
        let of_stripe = heads.find(|(of, _)| *of == stripe || any);
        of_stripe.map(|(_, value)| &value[..])
    }

    /// Returns, for each version, the least timestamp in the values of the other versions:
    /// [`i64::MAX`] if there are no other versions, [`i64::MIN`] if the timestamps of one of them
    /// are unknown. A deletion may be dropped only if its own timestamp is below this least
    /// timestamp.
    fn least_beside(&self, key: &[u8], versions: &[Version]) -> Vec<i64> {
        if versions.len() == 1 || mutation::is(Mutation::PurgeBesideOtherStripes) {
            return vec![i64::MAX; versions.len()];
        }
        let least = |version: &Version| {
            let bounds = timestamps_of(self.operator, key, version.kind, &version.value);
            bounds.map_or(i64::MIN, |bounds| bounds.least)
        };
        let each: Vec<_> = versions.iter().map(least).collect();
        let others = |at: usize| each[..at].iter().chain(&each[at + 1..]).min();
        let all = 0..versions.len();
        all.map(|at| others(at).copied().unwrap_or(i64::MAX))
            .collect()
    }
}

/// Returns whether a version has a value that merge operators can read: a put that does not expire,
/// or an operand.
fn has_value(version: &Version) -> bool {
    matches!(version.kind, Kind::Put | Kind::Merge)
}
