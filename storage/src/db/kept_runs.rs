//! What a flush or a merge writes: of each key the versions that are kept, as one run,
//! or as one for each side of the numbers at which it is cut.
//!
//! What is kept, and for whom, is [`Retain`]'s to say, for both alike.

use std::sync::Arc;

use crate::compaction::{Purger, Retain};
use crate::db::{Engine, TableCore};
use crate::error::Result;
use crate::key::{KeyRange, Kind, RangeTombstones, SeqNo, Version, stripe};
use crate::runs::{Run, RunBuilder};

/// Runs being written. Dropped without [`KeptRuns::finish`], their files are removed.
pub(super) struct KeptRuns<'a> {
    engine: &'a Engine,
    retain: Retain<'a>,
    splits: &'a [SeqNo],
    purger: Option<Purger<'a>>,
    /// Oldest first; one more than `splits`.
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    builder: RunBuilder<'a>,
    /// Of what was added; the other way round as long as nothing was.
    smallest: SeqNo,
    largest: SeqNo,
}

impl Part<'_> {
    fn widen(&mut self, seq: SeqNo) {
        self.smallest = seq.min(self.smallest);
        self.largest = seq.max(self.largest);
    }
}

impl<'a> KeptRuns<'a> {
    /// Runs of `table` cut at the ascending `splits`; `origins` are the numbers that
    /// each of them stands for, oldest first.
    pub(super) fn new(
        engine: &'a Engine,
        table: &'a TableCore,
        retain: Retain<'a>,
        splits: &'a [SeqNo],
        origins: impl IntoIterator<Item = (SeqNo, SeqNo)>,
    ) -> Self {
        let part = |origin| Part {
            builder: RunBuilder::new(
                engine.run_target(),
                table.id,
                table.options.sstable.clone(),
                table.origin(origin),
                table.merger.operator(),
            ),
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
            parts,
        }
    }

    /// The same, with garbage purged from what is kept.
    pub(super) fn with_purger(self, purger: Option<Purger<'a>>) -> Self {
        Self { purger, ..self }
    }

    /// Whether what was purged so far must not count: [`Purger::has_failed`].
    pub(super) fn has_failed_to_purge(&self) -> bool {
        self.purger.as_ref().is_some_and(Purger::has_failed)
    }

    /// Adds what is kept of a key's versions (newest first), which are gone then; the
    /// rest is as for [`Retain::versions`]. Keys ascend.
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
        for kept in kept {
            let part = &mut self.parts[kept.part];
            if let Some(by) = kept.only_for {
                part.builder.note_kept(by, key, &kept.version);
            }
            part.widen(kept.version.seq);
            part.builder.add(key, &kept.version)?;
        }
        Ok(())
    }

    /// Adds the only version of a key under no range tombstone, a put that does not
    /// expire: nothing of it is dropped. Most keys are so, and need no copy.
    pub(super) fn add_only(&mut self, key: &[u8], seq: SeqNo, value: &[u8]) -> Result<()> {
        let part = &mut self.parts[stripe(self.splits, seq)];
        part.widen(seq);
        part.builder.add_slices(key, seq, Kind::Put, value)
    }

    /// Finishes the runs with what is kept of the range `tombstones`, newest first;
    /// those that hold nothing are left out. `has_older` says whether older runs have
    /// anything in a range. `span` is the union of the spans of what was merged, of a
    /// flush that of what is kept.
    pub(super) fn finish(
        self,
        span: Option<(SeqNo, SeqNo)>,
        tombstones: &RangeTombstones,
        has_older: impl Fn(&KeyRange) -> bool,
    ) -> Result<Vec<Arc<Run>>> {
        let tombstones = tombstones.retained(self.retain.boundaries, has_older);
        let tombstones = tombstones.split(self.splits);
        let mut runs: Vec<Arc<Run>> = Vec::new();
        for (mut part, tombstones) in self.parts.into_iter().zip(tombstones) {
            tombstones.seqs().for_each(|seq| part.widen(seq));
            let span = span.unwrap_or((part.smallest, part.largest));
            match part.builder.finish(span, tombstones) {
                Ok(run) => {
                    if let Some(run) = &run {
                        self.engine.snapshots().note_kept(&run.meta().kept_for);
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
