//! The output of a flush or a merge: the versions of each key that are kept, as one run, or cut
//! into several runs at given sequence numbers.
//!
//! [`Retain`] decides which versions are kept, and for which readers, for flushes and merges
//! alike.

use std::sync::Arc;

use bytes::Bytes;

use crate::compaction::{Purger, Retain};
use crate::db::large_groups::{CutGroup, GroupSizes};
use crate::db::{Engine, TableCore};
use crate::error::Result;
use crate::key::{KeyRange, Kind, RangeTombstones, SeqNo, Version, stripe};
use crate::runs::{Run, RunBuilder, plain_bytes};
use crate::sstable::SsTableOptions;

/// The runs that a flush or a merge is writing. If a `KeptRuns` is dropped without
/// [`KeptRuns::finish`], the files of the runs are removed.
pub(super) struct KeptRuns<'a> {
    engine: &'a Engine,
    retain: Retain<'a>,
    splits: &'a [SeqNo],
    purger: Option<Purger<'a>>,
    /// The sizes of groups (keys with a common prefix, such as the rows of a partition), to report
    /// large ones; `None` if there is no listener for the reports, or this process has no merge
    /// operator for the table.
    groups: Option<GroupSizes<'a>>,
    /// The output runs, oldest first. The ascending sequence numbers `splits` separate them, so
    /// there is one run more than splits.
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    builder: RunBuilder<'a>,
    /// The smallest sequence number in the run so far; `MAX` before the first.
    smallest: SeqNo,
    /// The largest sequence number in the run so far; `ZERO` before the first.
    largest: SeqNo,
}

impl Part<'_> {
    fn widen(&mut self, seq: SeqNo) {
        self.smallest = seq.min(self.smallest);
        self.largest = seq.max(self.largest);
    }
}

impl<'a> KeptRuns<'a> {
    /// Returns the output of a flush or a merge, empty as yet. `form` are the options of its files.
    /// The ascending sequence numbers `splits` cut the output into runs. `origins` has a pair of
    /// sequence numbers for each run, the oldest run first: the run has all versions from the first
    /// number to the second that are still needed.
    pub(super) fn new(
        engine: &'a Engine,
        table: &'a TableCore,
        form: &SsTableOptions,
        retain: Retain<'a>,
        splits: &'a [SeqNo],
        origins: impl IntoIterator<Item = (SeqNo, SeqNo)>,
    ) -> Self {
        let part = |origin| Part {
            builder: RunBuilder::new(
                (&engine.runs, engine),
                table.id,
                form.clone(),
                table.origin(origin),
                table.merger.operator(),
            )
            .with_prefixes(table.merger.prefixes()),
            smallest: SeqNo::MAX,
            largest: SeqNo::ZERO,
        };
        let parts: Vec<_> = origins.into_iter().map(part).collect();
        debug_assert_eq!(parts.len(), splits.len() + 1);
        Self {
            engine,
            retain,
            splits,
            purger: None,
            groups: engine.group_listeners.measure(table),
            parts,
        }
    }

    /// Returns these runs, as a part of the table that begins at the key `start`, which their files
    /// record; `None` for the start of all keys. Does not remove anything below `start`: the caller
    /// adds only keys and range tombstones from there on.
    pub(super) fn beginning_at(self, start: Option<&Bytes>) -> Self {
        let beginning = |part: Part<'a>| Part {
            builder: part.builder.beginning_at(start.cloned()),
            ..part
        };
        Self {
            parts: self.parts.into_iter().map(beginning).collect(),
            ..self
        }
    }

    /// Returns these runs, with garbage purged by `purger` from the versions that are kept. With
    /// `None` nothing is purged.
    pub(super) fn with_purger(self, purger: Option<Purger<'a>>) -> Self {
        Self { purger, ..self }
    }

    /// Returns these runs, as a part of a merge whose part before has ended in `group`; `None` if
    /// that part has ended between two groups, or there was none.
    pub(super) fn going_on_in(mut self, group: Option<CutGroup>) -> Self {
        if let (Some(groups), Some(group)) = (&mut self.groups, group) {
            groups.go_on_in(group);
        }
        self
    }

    /// Returns the group of the last key if the next part of the merge, which begins at the key
    /// `next`, goes on within it. The group is not reported then, because it is not complete.
    /// Returns `None` if there is no such group or no next part, or if groups are not measured.
    pub(super) fn cut_group(&mut self, next: Option<&Bytes>) -> Option<CutGroup> {
        self.groups.as_mut()?.cut_before(next?)
    }

    /// Returns whether purging has failed, so that the output must be discarded: see
    /// [`Purger::has_failed`].
    pub(super) fn has_failed_to_purge(&self) -> bool {
        self.purger.as_ref().is_some_and(Purger::has_failed)
    }

    /// Returns whether the output may end before a key: see [`Purger::may_end_before`]. Without a
    /// purger it may end before any key.
    pub(super) fn may_end_before(&self, key: &[u8]) -> bool {
        let purger = self.purger.as_ref();
        purger.is_none_or(|purger| purger.may_end_before(key))
    }

    /// Returns the bytes that were written to the files of the runs so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.parts
            .iter()
            .map(|part| part.builder.written_bytes())
            .sum()
    }

    /// Adds those of a key's `versions` (newest first) that some reader needs, and empties
    /// `versions`. The other arguments are as for [`Retain::versions`]. Keys must come in ascending
    /// order.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        versions: &mut Vec<Version>,
        covering: &[SeqNo],
        bottom: bool,
    ) -> Result<()> {
        let (retain, splits) = (self.retain, self.splits);
        let purger = self.purger.as_mut();
        let kept = retain.kept(key, versions, covering, bottom, splits, purger);
        let mut bytes = 0;
        for kept in kept {
            bytes += plain_bytes(key, &kept.version.value);
            let part = &mut self.parts[kept.part];
            if let Some(by) = kept.only_for {
                part.builder.note_kept(by, key, &kept.version);
            }
            part.widen(kept.version.seq);
            part.builder.add(key, &kept.version)?;
        }
        if let Some(groups) = &mut self.groups {
            groups.add(key, bytes);
        }
        Ok(())
    }

    /// Adds a key that has a single version: a put that does not expire, and that no range
    /// tombstone covers. Such a version is always kept. Most keys have such a version, and this
    /// method does not copy it.
    pub(super) fn add_only(&mut self, key: &[u8], seq: SeqNo, value: &[u8]) -> Result<()> {
        if let Some(groups) = &mut self.groups {
            groups.add(key, plain_bytes(key, value));
        }
        let part = &mut self.parts[stripe(self.splits, seq)];
        part.widen(seq);
        part.builder.add_slices(key, seq, Kind::Put, value)
    }

    /// Finishes the runs, and adds those of the range `tombstones` that still hide something.
    /// Returns the runs newest first, without empty ones. `has_older` returns whether older runs
    /// have anything in a range. `span` is the union of the merged runs' ranges of sequence
    /// numbers; `None`, for a flush, stands for the range of the kept versions. The runs are a part
    /// of the table that ends before the key `end`, which their files record; `None` for no end.
    /// Range tombstones are cut at `end`; all keys that were added must be below it.
    pub(super) fn finish(
        mut self,
        span: Option<(SeqNo, SeqNo)>,
        end: Option<&Bytes>,
        tombstones: &RangeTombstones,
        has_older: impl Fn(&KeyRange) -> bool,
    ) -> Result<Vec<Arc<Run>>> {
        if let Some(groups) = &mut self.groups {
            groups.end_group();
        }
        let of_keys = end.map(|end| tombstones.within(&KeyRange::new(..end.clone())));
        let tombstones = of_keys.as_ref().unwrap_or(tombstones);
        let tombstones = tombstones.retained(self.retain.boundaries, has_older);
        let tombstones = tombstones.split(self.splits);
        let mut runs: Vec<Arc<Run>> = Vec::new();
        for (mut part, tombstones) in self.parts.into_iter().zip(tombstones) {
            tombstones.seqs().for_each(|seq| part.widen(seq));
            let span = span.unwrap_or((part.smallest, part.largest));
            match part.builder.finish(span, tombstones, end.cloned()) {
                Ok(run) => {
                    if let Some(run) = &run {
                        self.engine.snapshots.note_kept(&run.meta().kept_for);
                    }
                    runs.splice(0..0, run).for_each(drop);
                }
                Err(e) => {
                    runs.iter().for_each(|run| run.retire());
                    return Err(e);
                }
            }
        }
        Ok(runs)
    }
}
