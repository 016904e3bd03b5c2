//! The state of a table at one moment: its memtables and the ordered list of its runs.
//!
//! ```text
//!   memtable   frozen memtables   runs
//!   [newest] ─► [..] [oldest] ─► [newest] [..] [oldest]
//! ```
//!
//! An ingested run begins among the frozen memtables, in one that holds it
//! instead of entries.
//!
//! Invariant: for any key, a version further left has a higher sequence number than every
//! version further right. The *position* is the truth; runs are never sorted by their spans.
//! A version of this list is immutable; it is replaced as a whole, and a reference to an old
//! one keeps its files.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::compaction::{Unfinished, unfinished};
use crate::error::Result;
use crate::key::{FileNumber, KeyRange, RunId, SeqNo};
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::read::{IsEnough, Merger};
use crate::runs::{FileMeta, Quarantine, Run, RunFile, Sought};
use crate::sstable::SsTable;
use crate::version::{Layer, Lookup, Source, Tombstones};

/// If the files have at most this many index partitions in a key range, the range is divided at the
/// ends of data blocks. A larger range is divided at the ends of partitions: each of them is a
/// small part of the range, and reading them all, to find the blocks, would take long.
const PARTITIONS_IN_DETAIL_MAX: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct TableVersion {
    /// The open memtable, which takes the writes.
    pub(crate) memtable: Arc<Memtable>,
    /// The memtables that are to be flushed, newest first. One without entries may hold an ingested
    /// run, which keeps its place among them.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// The runs, newest first.
    pub(crate) runs: Vec<Arc<Run>>,
}

impl TableVersion {
    /// Creates a version with these runs, and with `memtable` as its open memtable; later memtables
    /// copy the settings of this one.
    pub(crate) fn new(memtable: Memtable, runs: Vec<Arc<Run>>) -> Self {
        Self {
            memtable: Arc::new(memtable),
            frozen: Vec::new(),
            runs,
        }
    }

    /// Adds to each look-up the versions of its key numbered `<= seq`, as many as it needs. Every
    /// commit with such a number must have succeeded or failed already. Keys that ascend and are
    /// neighbours cost less. A range tombstone of a source hides older versions in the source, and
    /// all in older sources. If `enough` is given, the reading ends as soon as `enough` returns
    /// true.
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
                        lookup.take_of_run(run, seq, merger)?;
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
                        lookup.take_of_run(run, seq, merger)?;
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
                // Otherwise the result would be the same as before.
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

    /// Returns the memtables and runs that a reader at `seq` searches, newest first.
    fn layers(&self, seq: SeqNo) -> impl Iterator<Item = Layer<'_>> + Clone {
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let memtables = memtables.map(|memtable| match memtable.run() {
            Some(run) => Layer::WaitingRun(run),
            None => Layer::Memtable(memtable),
        });
        let runs = self.runs.iter().filter(move |run| run.is_seen_at(seq));
        memtables.chain(runs.map(Layer::Run))
    }

    /// Returns whether a memtable has a version or a range tombstone that a reader at `seq` may
    /// see. Ingested runs do not count.
    pub(crate) fn has_in_memory(&self, seq: SeqNo) -> bool {
        let mut memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        memtables.any(|memtable| {
            memtable.iter().any(|entry| entry.seq() <= seq)
                || (memtable.range_tombstones())
                    .is_some_and(|ranges| ranges.iter().any(|tombstone| tombstone.seq <= seq))
        })
    }

    /// Returns cursors over every source that a reader at `seq` may see and that may hold keys of
    /// `sought`, newest first; and the number of runs that were left out because a filter excludes
    /// the prefix of `sought`. A run is also left out if the range tombstones of one source, an
    /// element of `hiding`, hide all of its versions in the sought range. This is for the deletion
    /// of all keys: a snapshot may then keep many runs of which no other reader sees anything.
    pub(crate) fn cursors(
        &self,
        seq: SeqNo,
        sought: &Sought<'_>,
        hiding: &[Tombstones],
        fill_cache: bool,
    ) -> (Vec<Source>, u64) {
        let excluded = Cell::new(0);
        let is_hidden = |run: &Run| {
            !hiding.is_empty() && {
                let keys = run.bounds().intersection(sought.keys());
                let largest_seq = run.meta().largest_seq;
                hiding.iter().any(|t| t.hide(&keys, largest_seq, seq))
            }
        };
        let cursor = |run: &Arc<Run>| {
            let is_read = run.is_seen_at(seq)
                && run.may_have(sought, || excluded.set(excluded.get() + 1))
                && !is_hidden(run);
            is_read.then(|| Source::Run(run.cursor(seq, fill_cache)))
        };
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let memtables = memtables.filter_map(|memtable| match memtable.run() {
            Some(run) => cursor(run),
            None => (memtable.len() > 0).then(|| Source::Memtable(memtable.cursor())),
        });
        let sources = memtables.chain(self.runs.iter().filter_map(cursor));
        (sources.collect(), excluded.get())
    }

    /// Returns the range tombstones of every source that a reader at `seq` may see. Some of the
    /// tombstones may have numbers above `seq`.
    pub(crate) fn range_tombstones(&self, seq: SeqNo) -> Vec<Tombstones> {
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let memtables = memtables.filter_map(|memtable| memtable.range_tombstones());
        let runs = self.runs.iter().filter(|run| run.is_seen_at(seq));
        let runs = runs.filter_map(|run| run.range_tombstones().cloned());
        let memtables = memtables.map(Tombstones::OfMemtable);
        memtables.chain(runs.map(Tombstones::OfRun)).collect()
    }

    /// Returns keys, ascending and within the range, that cut the range into at most `parts` pieces
    /// with about the same number of bytes on disk. Only files that a reader at `seq` sees are counted.
    pub(crate) fn split_keys(&self, seq: SeqNo, range: &KeyRange, parts: usize) -> Vec<Bytes> {
        let pieces = self.pieces(seq, range);
        let total: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
        let mut keys: Vec<Bytes> = Vec::new();
        let mut before = 0;
        for (last_key, bytes) in pieces {
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

    /// Returns the ingested runs that are not in the run list yet, newest first.
    pub(crate) fn waiting_runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.frozen.iter().filter_map(|memtable| memtable.run())
    }

    /// Returns the number of runs that a picker can choose from, without those in `left_out`: runs
    /// that may be merged and may have keys in common. Of a merge in parts that is not finished,
    /// the output is not counted, because it has none of the keys that the inputs still have. If
    /// one of its inputs must not be merged or is in `left_out`, the merge is stuck, and none of
    /// its runs is counted.
    pub(crate) fn mergeable_runs(&self, left_out: &HashSet<RunId>) -> usize {
        let mergeable = |run: &&Arc<Run>| run.is_mergeable() && !left_out.contains(&run.id());
        let all = self.runs.iter().filter(mergeable).count();
        let begun = self.unfinished(left_out).into_iter();
        let beside = begun.map(|merge| {
            if merge.is_stuck {
                self.runs[merge.runs()].iter().filter(mergeable).count()
            } else {
                let output = merge.output().map(|at| &self.runs[at]);
                usize::from(output.as_ref().is_some_and(mergeable))
            }
        });
        all - beside.sum::<usize>()
    }

    /// Returns the merges in parts that are not finished, newest first. Such a merge is stuck if one of
    /// its inputs may not be merged or is among `left_out`.
    pub(crate) fn unfinished(&self, left_out: &HashSet<RunId>) -> Vec<Unfinished> {
        let stuck = self.runs.iter().filter(|run| !run.is_mergeable());
        let stuck = stuck.map(|run| run.id()).chain(left_out.iter().copied());
        let stuck: HashSet<_> = stuck.collect();
        unfinished(self.runs.iter().map(|run| run.meta()), &stuck)
    }

    /// Returns a copy of this version in which a file is in quarantine; `None` if no run has the file.
    pub(crate) fn quarantined(&self, file: FileNumber, quarantine: &Quarantine) -> Option<Self> {
        self.with_changed(|run| run.quarantined(file, quarantine))
    }

    /// Returns a copy of this version in which the file `whole`, open as `file`, replaces the file
    /// `damaged`. `whole` is an undamaged file, or the same file, opened again after its first opening had
    /// failed. `None` if no run has the file `damaged`.
    pub(crate) fn restored(
        &self,
        damaged: FileNumber,
        whole: &FileMeta,
        file: &Arc<RunFile>,
    ) -> Option<Self> {
        self.with_changed(|run| run.restored(damaged, whole, file))
    }

    /// Returns a copy of this version in which the first run for which `change` returns a run is
    /// replaced by that run; `None` if there is none.
    fn with_changed(&self, change: impl Fn(&Arc<Run>) -> Option<Arc<Run>>) -> Option<Self> {
        let changed = |(at, run)| Some((at, change(run)?));
        let (at, run) = self.runs.iter().enumerate().find_map(changed)?;
        let mut next = self.clone();
        next.runs[at] = run;
        Some(next)
    }

    /// Returns a copy of this version in which the files of `rest` replace the file `lost`; a run
    /// without files is removed. `None` if no run has the file `lost`.
    pub(crate) fn without_lost(&self, lost: FileNumber, rest: Option<&Run>) -> Option<Self> {
        let mut runs = self.runs.iter().enumerate();
        let (at, run) = runs.find_map(|(at, run)| Some((at, run.without_lost(lost, rest)?)))?;
        let mut next = self.clone();
        next.runs.splice(at..=at, run);
        Some(next)
    }

    /// Returns all runs, also the ingested ones that are not in the run list yet; newest first.
    pub(crate) fn all_runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.waiting_runs().chain(&self.runs)
    }

    /// Returns the approximate size on disk, in bytes, of the data that a reader at `seq` may see in a range
    /// of keys.
    pub(crate) fn approximate_bytes(&self, seq: SeqNo, range: &KeyRange) -> u64 {
        let pieces = self
            .tables(seq, range)
            .flat_map(|(table, range)| table.pieces(&range, false));
        pieces.map(|(_, bytes)| bytes).sum()
    }

    /// Returns the pieces of files in which a reader at `seq` may find keys of a range, ascending.
    /// Each piece is a data block or, if there are many index partitions, a whole partition, and
    /// has an upper bound of its keys and its size in bytes. Only indexes are read, no data.
    fn pieces(&self, seq: SeqNo, range: &KeyRange) -> Vec<(Bytes, u64)> {
        let partitions: usize = self
            .tables(seq, range)
            .map(|(table, range)| table.partitions_in(&range))
            .sum();
        let in_detail = partitions <= PARTITIONS_IN_DETAIL_MAX;
        let pieces = self
            .tables(seq, range)
            .flat_map(|(table, range)| table.pieces(&range, in_detail));
        let mut pieces: Vec<(Bytes, u64)> =
            pieces.map(|(key, bytes)| (key.into(), bytes)).collect();
        pieces.sort_unstable();
        pieces
    }

    /// Returns the files of the runs in which a reader at `seq` may see versions, each with the
    /// part of `range` that lies within the key range of its run.
    fn tables(
        &self,
        seq: SeqNo,
        range: &KeyRange,
    ) -> impl Iterator<Item = (&Arc<SsTable>, KeyRange)> {
        let runs = self.all_runs().filter(move |run| run.is_seen_at(seq));
        runs.flat_map(move |run| {
            let range = run.counting(range.clone());
            run.sorted().iter().map(move |table| (table, range.clone()))
        })
    }

    /// Returns this version with a fresh memtable, and the old one frozen at `end`; `None` if
    /// the old one never got a write.
    pub(crate) fn rotated(&self, end: SeqNo) -> Option<Self> {
        self.memtable.first_segment()?;
        self.memtable.freeze(end);
        let mut next = self.clone();
        let fresh = Arc::new(next.memtable.next());
        next.frozen
            .insert(0, std::mem::replace(&mut next.memtable, fresh));
        Some(next)
    }

    /// Returns this version with a run that the next commit ingests, above all other sources.
    /// `layer` is the memtable without entries that has the run, to keep its place among the
    /// memtables until it can join the list of runs.
    pub(crate) fn ingested(&self, layer: &Arc<Memtable>) -> Self {
        let end = layer.end_seq().and_then(SeqNo::before).unwrap_or_default();
        let mut next = self.rotated(end).unwrap_or_else(|| self.clone());
        let place = mutation::replace(0, Mutation::IngestUnderMemtables, next.frozen.len());
        next.frozen.insert(place, layer.clone());
        next
    }

    /// Returns a copy of this version without a memtable that holds an ingested run, because the commit
    /// of the ingest failed; `None` if this version does not have the memtable.
    pub(crate) fn without(&self, layer: &Arc<Memtable>) -> Option<Self> {
        let mut next = self.clone();
        next.frozen.retain(|other| !Arc::ptr_eq(other, layer));
        (next.frozen.len() < self.frozen.len()).then_some(next)
    }

    /// Returns this version with the oldest frozen memtable replaced by the runs that hold
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

    /// Returns this version after a merge or a part of it, and the files that the new version no longer
    /// contains. `output` replaces the `inputs`, which are neighbours in the list. With `rest`, only
    /// the inputs' keys before `rest` are merged so far, and the inputs stay with their other keys.
    /// With `onto`, the run right behind the inputs, which has the output of earlier parts, `output` is
    /// added to that run.
    pub(crate) fn compacted(
        &self,
        inputs: &[RunId],
        rest: Option<&Bytes>,
        onto: Option<RunId>,
        output: Option<&Run>,
    ) -> (Self, Vec<Arc<RunFile>>) {
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
        let end = at + inputs.len();
        let onto = onto.map(|id| {
            let run = next.runs.remove(end);
            assert_eq!(run.id(), id, "what was merged before is behind the inputs");
            run
        });
        let mut left = Vec::new();
        let mut gone = Vec::new();
        for run in &next.runs[at..end] {
            match rest {
                Some(key) => {
                    let (run, files) = run.beginning_at(key);
                    left.extend(run);
                    gone.extend(files);
                }
                None => gone.extend(run.files().iter().cloned()),
            }
        }
        let merged = Run::merged(onto.as_deref(), output, rest);
        next.runs.splice(at..end, left.into_iter().chain(merged));
        if mutation::is(Mutation::MergedRunOnTop) {
            next.runs.rotate_left(at);
        }
        (next, gone)
    }
}
