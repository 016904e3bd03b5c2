//! Flush: the oldest frozen memtables of some tables, one of each table, become runs.
//!
//! Order of effects, each relying on the one before:
//!
//! 1. all commits numbered up to the memtable's end are finished;
//! 2. the runs are written and synced, then their names;
//! 3. the WAL is synced, so that a batch over two tables cannot be in the runs
//!    of one and lost from the log of the other, and no deletion of a snapshot
//!    and no truncation that the runs rely on can be lost;
//! 4. the manifest names the runs, of all these tables by one edit;
//! 5. readers see the runs in place of the memtable.

use std::sync::Arc;

use crate::compaction::Retain;
use crate::db::events::Event;
use crate::db::kept_runs::KeptRuns;
use crate::db::truncation::first_truncation;
use crate::db::{Engine, TableCore};
use crate::error::Result;
use crate::key::{Boundaries, KeyRange, Kind, RangeTombstones, SeqNo, TableId, stripe};
use crate::manifest::{Edit, FlushedTable, State};
use crate::memtable::{Entry, Memtable, version_of};
use crate::mutation::{self, Mutation};
use crate::runs::{Run, plain_bytes};
use crate::version::TableVersion;

/// A flush splits a memtable into two runs at a bookmark (the commit of a snapshot) only if each
/// side has at least the bytes of a full memtable divided by this number.
const SPLIT_FRACTION: usize = 8;

/// Each time a flush has processed entries of this many bytes, it adds these bytes to the tokens
/// that throttled writers wait for.
const CREDIT_BYTES: u64 = 64 << 10;

/// A memtable that was written as runs. Readers see the runs only after [`install`].
#[derive(Debug)]
pub(super) struct Written {
    table: Arc<TableCore>,
    memtable: Arc<Memtable>,
    /// The last sequence number of the memtable: once the runs are installed, the table is flushed
    /// up to it.
    end: SeqNo,
    /// The runs with the versions of the memtable that readers need, newest first; empty if readers
    /// need none of them.
    runs: Vec<Arc<Run>>,
}

impl Written {
    pub(super) fn table(&self) -> TableId {
        self.table.id
    }

    /// Returns whether the runs are installed: readers see them in place of the memtable.
    pub(super) fn is_seen(&self) -> bool {
        let version = self.table.peek();
        let mut frozen = version.frozen.iter();
        !frozen.any(|memtable| Arc::ptr_eq(memtable, &self.memtable))
    }

    /// Returns the bytes of the files that the flush wrote; 0 for an ingested run, whose files
    /// existed before.
    pub(super) fn bytes(&self) -> u64 {
        self.fresh().iter().map(|run| run.meta().bytes()).sum()
    }

    /// Returns the runs that neither the manifest nor the log names yet: none for an ingested run,
    /// which the log names.
    fn fresh(&self) -> &[Arc<Run>] {
        match self.memtable.run() {
            Some(_) => &[],
            None => &self.runs,
        }
    }
}

/// Writes the oldest frozen memtable of `table` as runs, and returns them; `None` if no memtable is
/// frozen. Until the runs are installed, no other flush of the table may begin: newer memtables
/// rely on these runs.
pub(super) fn write_oldest(engine: &Engine, table: &Arc<TableCore>) -> Result<Option<Written>> {
    let (memtable, end) = loop {
        let Some(memtable) = next_to_flush(&table.version()) else {
            return Ok(None);
        };
        let end = memtable.end_seq().expect("a frozen memtable knows its end");
        if !mutation::is(Mutation::FlushDoesNotWait) {
            engine.queue.wait_visible(end);
        }
        // If the memtable was an ingested run whose commit failed, another one is the oldest now.
        if next_to_flush(&table.version()).is_some_and(|next| Arc::ptr_eq(&next, &memtable)) {
            break (memtable, end);
        }
    };
    let truncation = truncation_above(&table.version(), &memtable);
    // Views that are registered after this see the truncation.
    if let Some(seq) = truncation {
        engine.queue.wait_visible(seq);
    }
    // The input is fixed; from here on no new view can need the versions that are dropped.
    let boundaries = engine.boundaries(table);
    let splits = splits(
        &memtable,
        &engine.snapshots.bookmark_seqs(table.span()),
        engine.options.memtable_bytes,
    );
    let runs = match memtable.run() {
        Some(run) => vec![run.clone()],
        None => write_runs(engine, table, &memtable, &boundaries, &splits, truncation)?,
    };
    Ok(Some(Written {
        table: table.clone(),
        memtable,
        end,
        runs,
    }))
}

/// Installs the runs of the `written` memtables, which are of different tables, with one sync of
/// the directory, one of the WAL and one edit of the manifest for all. Skips tables that were
/// dropped.
pub(super) fn install(engine: &Engine, written: &[Written]) -> Result<()> {
    let fresh: Vec<_> = written.iter().flat_map(Written::fresh).cloned().collect();
    let synced = engine.runs.finish_runs(&fresh).and_then(|()| {
        let snapshots = engine.unrecorded_snapshots();
        mutation::unless(Mutation::FlushWithoutWalSync, || engine.wal.sync_all())?;
        Ok(snapshots)
    });
    let snapshots = synced.inspect_err(|_| fresh.iter().for_each(|run| run.retire()))?;
    let edit = |state: &State| {
        let is_there = |it: &&Written| state.tables.contains_key(&it.table.id);
        let flushed = |it: &Written| FlushedTable {
            table: it.table.id,
            flushed_seq: it.end,
            runs: it.runs.iter().map(|run| run.meta().clone()).collect(),
        };
        let tables: Vec<_> = written.iter().filter(is_there).map(flushed).collect();
        (!tables.is_empty()).then_some(Edit::Flush { tables, snapshots })
    };
    engine.install(&fresh, edit, |state| {
        for it in written {
            if state.tables.contains_key(&it.table.id) {
                let show = |version: &TableVersion| Some(version.flushed(&it.memtable, &it.runs));
                it.table.update(show);
                engine.counters.flush_bytes.add(it.bytes());
            } else {
                it.fresh().iter().for_each(|run| run.retire());
            }
        }
    })?;
    // The files of an ingested run were not written by a flush.
    let is_reported = |it: &&Written| it.is_seen() && it.memtable.run().is_none();
    for it in written.iter().filter(is_reported) {
        engine.events.tell(Event::Flushed {
            keyspace: &it.table.keyspace,
            table: &it.table.name,
            bytes: it.bytes(),
        });
    }
    Ok(())
}

/// Returns the oldest frozen memtable; `None` if none is frozen.
fn next_to_flush(version: &TableVersion) -> Option<Arc<Memtable>> {
    let (oldest, newest) = (version.frozen.last(), version.frozen.first());
    mutation::replace(oldest, Mutation::FlushNewestFirst, newest).cloned()
}

/// Returns the sequence number of the oldest truncation in the frozen memtables that are newer than
/// `memtable`; `None` if there is no truncation in them.
fn truncation_above(version: &TableVersion, memtable: &Arc<Memtable>) -> Option<SeqNo> {
    let frozen = version.frozen.iter();
    first_truncation(frozen.take_while(|other| !Arc::ptr_eq(other, memtable)))
}

/// Writes the memtable as runs, and returns them newest first. The ascending sequence numbers
/// `splits` cut the versions into runs. `boundaries` are the commits at which readers read;
/// versions that no reader needs are left out. Versions that a later `truncation` hides from all
/// readers are left out, too: on a full disk they might not fit, and the truncation is flushed
/// after them.
fn write_runs(
    engine: &Engine,
    table: &TableCore,
    memtable: &Memtable,
    boundaries: &Boundaries,
    splits: &[SeqNo],
    truncation: Option<SeqNo>,
) -> Result<Vec<Arc<Run>>> {
    let version = table.version();
    let truncated = truncation.map(|seq| boundaries.stripe(seq));
    let is_truncated =
        |seq: SeqNo| truncated.is_some_and(|stripe| boundaries.stripe(seq) == stripe);
    let retain = Retain {
        boundaries,
        merger: &table.merger,
    };
    // The largest number that any run stands for: up to there the table is flushed. It need not be
    // that of the first run in the list, because the output of a merge in parts stands for the
    // numbers of all its inputs, and has its place behind them.
    let flushed_seq = version.runs.iter().map(|run| run.origin_span().1).max();
    let end = memtable.end_seq().expect("it is frozen");
    let ends: Vec<_> = std::iter::once(flushed_seq.unwrap_or(SeqNo::ZERO))
        .chain(splits.iter().copied())
        .chain([end])
        .collect();
    // Each run stands for all numbers behind the end of the run before it, up to its own end.
    let origins = ends.windows(2).map(|ends| (ends[0].next(), ends[1]));
    // A flushed run is never in the form of the oldest run, whose compression is for what is seldom
    // written.
    let form = table.options().sstable.of_run(false);
    // Without a purger: what was just written is seldom old enough to be purged.
    let mut runs = KeptRuns::new(engine, table, &form, retain, splits, origins);
    let tombstones = memtable.range_tombstones();
    let tombstones = tombstones.iter().flat_map(|ranges| ranges.iter());
    let tombstones = tombstones.filter(|tombstone| !is_truncated(tombstone.seq));
    let tombstones = RangeTombstones::build(tombstones, Some(boundaries));
    let mut flushed_bytes = 0;
    let mut of_key = Vec::new();
    // The versions of one key, newest first.
    let mut add_key = |versions: &[Entry<'_>]| -> Result<()> {
        let key = versions[0].key();
        let covering = tombstones.over(key);
        // Most keys have one version, which needs no copy and no rule.
        if let ([only], []) = (versions, covering)
            && only.kind() == Kind::Put
        {
            return runs.add_only(key, only.seq(), only.value());
        }
        // All runs are older than the memtable, and merges beside this flush add no key to them.
        let bottom = !version.runs.iter().any(|run| run.covers(key));
        of_key.extend(versions.iter().copied().map(version_of));
        runs.add(key, &mut of_key, covering, bottom)
    };
    let mut versions: Vec<Entry<'_>> = Vec::new();
    for entry in memtable.iter() {
        if versions
            .last()
            .is_some_and(|last| last.key() != entry.key())
        {
            add_key(&versions)?;
            versions.clear();
        }
        // Throttled writers get their tokens while the flush goes on. Truncated entries count, too:
        // the flush frees their memory.
        flushed_bytes += plain_bytes(entry.key(), entry.value());
        if flushed_bytes >= CREDIT_BYTES {
            engine
                .write_stall
                .refill(std::mem::take(&mut flushed_bytes));
        }
        if !is_truncated(entry.seq()) {
            versions.push(entry);
        }
    }
    engine.write_stall.refill(flushed_bytes);
    if !versions.is_empty() {
        add_key(&versions)?;
    }
    let has_older = |range: &KeyRange| version.runs.iter().any(|run| run.overlaps(range));
    runs.finish(None, None, &tombstones, has_older)
}

/// Returns the bookmarks (commits of snapshots) at which the flush splits the memtable into runs,
/// ascending: as many as leave each run large enough (see [`SPLIT_FRACTION`]).
fn splits(memtable: &Memtable, bookmarks: &[SeqNo], memtable_bytes: usize) -> Vec<SeqNo> {
    if bookmarks.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0; bookmarks.len() + 1];
    for entry in memtable.iter() {
        bytes[stripe(bookmarks, entry.seq())] += entry.key().len() + entry.value().len();
    }
    choose_splits(&bytes, bookmarks, (memtable_bytes / SPLIT_FRACTION).max(1))
}

/// Returns the bookmarks (commits of snapshots) at which a memtable is split into runs, ascending:
/// each run gets at least `worth` bytes. `bytes[i]` is the number of bytes between the bookmarks
/// `i - 1` and `i`. The first element of `bytes` is for the versions up to the first bookmark, and
/// the last one for those above the last bookmark.
fn choose_splits(bytes: &[usize], bookmarks: &[SeqNo], worth: usize) -> Vec<SeqNo> {
    let mut above: usize = bytes.iter().sum();
    let mut below = 0;
    let mut chosen = Vec::new();
    for (&bookmark, &stripe_bytes) in bookmarks.iter().zip(bytes) {
        below += stripe_bytes;
        above -= stripe_bytes;
        if below >= worth && above >= worth {
            chosen.push(bookmark);
            below = 0;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_cut_at_a_bookmark_when_both_sides_are_worth_a_file() {
        for (bytes, chosen) in [
            (&[100, 100, 100][..], &[1, 2][..]),
            (&[100, 0, 100], &[1]),
            (&[5, 100, 100], &[2]),
            (&[5, 4, 200], &[]),
            (&[6, 6, 200], &[2]),
            (&[200, 5, 4], &[]),
            (&[0, 0, 0], &[]),
        ] {
            let chosen: Vec<_> = chosen.iter().map(|&s| SeqNo(s)).collect();
            assert_eq!(
                choose_splits(bytes, &[SeqNo(1), SeqNo(2)], 10),
                chosen,
                "{bytes:?}"
            );
        }
    }
}
