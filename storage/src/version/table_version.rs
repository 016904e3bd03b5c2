//! What a table consists of at one moment: its memtables and the ordered list
//! of its runs.
//!
//! ```text
//!   memtable   frozen memtables   runs
//!   [newest] ─► [..] [oldest] ─► [newest] [..] [oldest]
//! ```
//!
//! An ingested run begins among the frozen memtables, in one that holds it
//! instead of entries.
//!
//! What always holds: for any key, a version further left has a higher sequence
//! number than every version further right. The *position* is the truth; runs
//! are never sorted by their spans. A version of this list is immutable; it is
//! replaced as a whole, and whoever holds one keeps its files.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::key::{KeyRange, RangeTombstones, RunId, SeqNo, is_before};
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::read::{IsEnough, Merger};
use crate::runs::Run;
use crate::version::{Layer, Lookup, Source};

/// A table at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TableVersion {
    /// Takes the writes.
    pub(crate) memtable: Arc<Memtable>,
    /// Full memtables on their way to disk, newest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
}

impl TableVersion {
    /// One of these runs, whose memtables are made like `memtable`, its first.
    pub(crate) fn new(memtable: Memtable, runs: Vec<Arc<Run>>) -> Self {
        Self {
            memtable: Arc::new(memtable),
            frozen: Vec::new(),
            runs,
        }
    }

    /// Gives each look-up the versions of its key numbered `<= seq`, as many as it takes.
    /// All that is numbered so is decided. Keys that ascend and are neighbours cost less.
    /// A range tombstone of a source hides what is older in it, and all that older sources
    /// have. With `enough` it ends where that says so.
    pub(crate) fn get(
        &self,
        lookups: &mut [Lookup<'_, '_>],
        seq: SeqNo,
        merger: &Merger,
        enough: Option<IsEnough<'_>>,
    ) -> Result<()> {
        let mut asked_with = i64::MAX;
        let mut layers = self.layers(seq);
        while let Some(layer) = layers.next() {
            match layer {
                Layer::Memtable(memtable) => {
                    Lookup::take_of_memtable(lookups, memtable, seq, merger);
                }
                Layer::WaitingRun(run) => {
                    for lookup in Lookup::open(lookups) {
                        lookup.take_of_run(run, seq)?;
                    }
                }
                Layer::Run(run) => {
                    let tombstones = run.range_tombstones();
                    let tombstones =
                        tombstones.filter(|_| !mutation::is(Mutation::GetPastRangeTombstones));
                    for lookup in Lookup::open(lookups) {
                        let covering = tombstones.and_then(|t| t.covering(lookup.key(), seq));
                        if let Some(tombstone) = covering {
                            lookup.hide_below(tombstone);
                        }
                        lookup.take_of_run(run, seq)?;
                    }
                }
            }
            if Lookup::open(lookups).next().is_none() {
                return Ok(());
            }
            if let Some(enough) = enough
                && Lookup::any_found(lookups)
            {
                let left = Layer::greatest_timestamp_of(layers.clone());
                // The same answer as before otherwise.
                if (Lookup::take_changed(lookups) || left < asked_with)
                    && Lookup::are_enough(lookups, left, merger, enough)
                {
                    return Ok(());
                }
                asked_with = left;
            }
        }
        Ok(())
    }

    /// What a reader at `seq` looks at, newest first.
    fn layers(&self, seq: SeqNo) -> impl Iterator<Item = Layer<'_>> + Clone {
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let memtables = memtables.map(|memtable| match memtable.run() {
            Some(run) => Layer::WaitingRun(run),
            None => Layer::Memtable(memtable),
        });
        let runs = self.runs.iter().filter(move |run| run.is_seen_at(seq));
        memtables.chain(runs.map(Layer::Run))
    }

    /// Whether a memtable has something that a reader at `seq` may see.
    pub(crate) fn has_in_memory(&self, seq: SeqNo) -> bool {
        let mut memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        memtables.any(|memtable| {
            memtable.iter().any(|entry| entry.seq() <= seq)
                || (memtable.range_tombstones())
                    .is_some_and(|tombstones| tombstones.seqs().any(|at| at <= seq))
        })
    }

    /// Cursors over every source that a reader at `seq` may see, newest first.
    pub(crate) fn cursors(&self, seq: SeqNo, fill_cache: bool) -> Vec<Source> {
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let memtables = memtables.filter_map(|memtable| match memtable.run() {
            Some(run) => (run.is_seen_at(seq)).then(|| Source::Run(run.cursor(fill_cache))),
            None => (memtable.len() > 0).then(|| Source::Memtable(memtable.cursor())),
        });
        let runs = self.runs.iter().filter(|run| run.is_seen_at(seq));
        let runs = runs.map(|run| Source::Run(run.cursor(fill_cache)));
        memtables.chain(runs).collect()
    }

    /// The range tombstones of every source that a reader at `seq` may see.
    pub(crate) fn range_tombstones(&self, seq: SeqNo) -> Vec<Arc<RangeTombstones>> {
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let memtables = memtables.filter_map(|memtable| memtable.range_tombstones());
        let runs = self.runs.iter().filter(|run| run.is_seen_at(seq));
        let runs = runs.filter_map(|run| run.range_tombstones().cloned());
        memtables.chain(runs).collect()
    }

    /// Keys that cut what a reader at `seq` sees of a range into at most `parts`
    /// pieces of about as many bytes on disk, ascending, each within the range.
    pub(crate) fn split_keys(&self, seq: SeqNo, range: &KeyRange, parts: usize) -> Vec<Bytes> {
        let blocks = self.blocks(seq, range);
        let total: u64 = blocks.iter().map(|(_, bytes)| bytes).sum();
        let mut keys: Vec<Bytes> = Vec::new();
        let mut before = 0;
        for (last_key, bytes) in blocks {
            let piece = keys.len() as u64 + 1;
            before += bytes;
            if before * parts as u64 >= total * piece
                && before < total
                && keys.last() != Some(&last_key)
                && last_key > range.start
                && range.contains(&last_key)
            {
                keys.push(last_key);
            }
        }
        keys.truncate(parts.saturating_sub(1));
        keys
    }

    /// The ingested runs that are not in the run list yet, newest first.
    pub(crate) fn waiting_runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.frozen.iter().filter_map(|memtable| memtable.run())
    }

    /// All runs, those included that wait for their place in the list; newest
    /// first.
    pub(crate) fn all_runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.waiting_runs().chain(&self.runs)
    }

    /// Bytes on disk of the data blocks that may hold something of a range.
    pub(crate) fn approximate_bytes(&self, seq: SeqNo, range: &KeyRange) -> u64 {
        let blocks = self.blocks(seq, range);
        blocks.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The data blocks that a reader at `seq` may see something of a range in,
    /// by keys between them and the next, and their bytes: from the indexes, so without reading
    /// any.
    fn blocks(&self, seq: SeqNo, range: &KeyRange) -> Vec<(Bytes, u64)> {
        let mut blocks: Vec<(Bytes, u64)> = Vec::new();
        let runs = self.all_runs().filter(|run| run.is_seen_at(seq));
        for file in runs.flat_map(|run| run.files()) {
            let mut first = Bytes::from(file.table().properties().smallest_key.clone());
            for (bound, bytes) in file.table().block_bounds() {
                let bound = Bytes::from(bound);
                if bound >= range.start && is_before(&first, range.end.as_ref()) {
                    blocks.push((bound.clone(), bytes));
                }
                first = bound;
            }
        }
        blocks.sort_unstable();
        blocks
    }

    /// The same with a fresh memtable; the old one is frozen at `end`. One that
    /// never got a write is not.
    pub(crate) fn rotated(&self, end: SeqNo) -> Option<Self> {
        self.memtable.first_segment()?;
        self.memtable.freeze(end);
        let mut next = self.clone();
        let fresh = Arc::new(next.memtable.next());
        next.frozen
            .insert(0, std::mem::replace(&mut next.memtable, fresh));
        Some(next)
    }

    /// The same with a run that the next commit ingests above all that is there;
    /// `layer` holds it.
    pub(crate) fn ingested(&self, layer: &Arc<Memtable>) -> Self {
        let end = layer.end_seq().and_then(SeqNo::before).unwrap_or_default();
        let mut next = self.rotated(end).unwrap_or_else(|| self.clone());
        let place = mutation::replace(0, Mutation::IngestUnderMemtables, next.frozen.len());
        next.frozen.insert(place, layer.clone());
        next
    }

    /// The same without a layer whose commit failed; `None` when it is not there.
    pub(crate) fn without(&self, layer: &Arc<Memtable>) -> Option<Self> {
        let mut next = self.clone();
        next.frozen.retain(|other| !Arc::ptr_eq(other, layer));
        (next.frozen.len() < self.frozen.len()).then_some(next)
    }

    /// The same with the oldest frozen memtable replaced by the runs that hold
    /// its content (newest first, possibly none).
    pub(crate) fn flushed(&self, memtable: &Arc<Memtable>, runs: &[Arc<Run>]) -> Self {
        let mut next = self.clone();
        let oldest = next.frozen.pop().expect("a flush is of a frozen memtable");
        assert!(
            Arc::ptr_eq(&oldest, memtable),
            "flushes install oldest first"
        );
        next.runs.splice(0..0, runs.iter().cloned());
        next
    }

    /// The same with the contiguous `inputs` replaced by `output`.
    pub(crate) fn compacted(&self, inputs: &[RunId], output: Option<Arc<Run>>) -> Self {
        let mut next = self.clone();
        let at = next
            .runs
            .iter()
            .position(|run| run.id() == inputs[0])
            .expect("inputs stay until replaced");
        let at = mutation::replace(at, Mutation::InstallAnywhere, 0);
        let ids: Vec<_> = next.runs[at..at + inputs.len()]
            .iter()
            .map(|run| run.id())
            .collect();
        let anywhere = mutation::is(Mutation::InstallAnywhere);
        assert!(
            ids == inputs || anywhere,
            "inputs are neighbours in the list"
        );
        next.runs.splice(at..at + inputs.len(), output);
        if mutation::is(Mutation::MergedRunOnTop) {
            next.runs.rotate_left(at);
        }
        next
    }
}
