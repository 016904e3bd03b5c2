//! Flush: the oldest frozen memtable of a table becomes runs.
//!
//! Order of effects, each relying on the one before:
//!
//! 1. everything numbered up to the memtable's end is decided;
//! 2. the runs are written and synced;
//! 3. the WAL is synced, so that a batch over two tables cannot be in the runs
//!    of one and lost from the log of the other, and no deletion of a snapshot
//!    that the runs rely on can be lost;
//! 4. the manifest names the runs;
//! 5. readers see them; the memtable goes.

use std::sync::Arc;

use crate::compaction::Retain;
use crate::db::kept_runs::KeptRuns;
use crate::db::{Engine, TableCore};
use crate::error::Result;
use crate::key::{Boundaries, KeyRange, Kind, SeqNo, stripe};
use crate::manifest::Edit;
use crate::memtable::{Entry, Memtable, version_of};
use crate::mutation::{self, Mutation};
use crate::runs::{Run, plain_bytes};
use crate::version::TableVersion;

/// Both sides of a bookmark must be worth this part of a full memtable for a
/// flush to make two runs of them.
const SPLIT_FRACTION: usize = 8;

/// Writers who are slowed hear of so many flushed bytes at a time.
const CREDIT_BYTES: u64 = 64 << 10;

/// Flushes the oldest frozen memtable of `table`; false when there is none, or
/// the table is gone.
pub(crate) fn flush_oldest(engine: &Engine, table: &TableCore) -> Result<bool> {
    let Some(memtable) = next_to_flush(&table.version()) else {
        return Ok(false);
    };
    let end = memtable.end_seq().expect("a frozen memtable knows its end");
    if !mutation::is(Mutation::FlushDoesNotWait) {
        engine.queue().wait_visible(end);
    }
    if !next_to_flush(&table.version()).is_some_and(|next| Arc::ptr_eq(&next, &memtable)) {
        // An ingested run whose commit failed.
        return Ok(true);
    }
    // The input is fixed; from here on no new view can need what is dropped.
    let boundaries = engine.boundaries(table.id);
    let splits = splits(
        &memtable,
        &engine.snapshots().bookmark_seqs(table.id),
        engine.options().memtable_bytes,
    );
    let runs = match memtable.run() {
        Some(run) => vec![run.clone()],
        None => write_runs(engine, table, &memtable, &boundaries, &splits)?,
    };

    let bookmarks = engine.unrecorded_bookmarks();
    mutation::unless(Mutation::FlushWithoutWalSync, || engine.wal().sync_all())?;
    let edit = Edit::Flush {
        table: table.id,
        flushed_seq: end,
        runs: runs.iter().map(|run| run.meta().clone()).collect(),
        bookmarks,
    };
    // The files of an ingested run are named by the log.
    let fresh = match memtable.run() {
        Some(_) => &[],
        None => runs.as_slice(),
    };
    let installed = engine.install(table, fresh, edit, || {
        table.update(|version| Some(version.flushed(&memtable, &runs)));
    })?;
    if !installed {
        return Ok(false);
    }
    if memtable.run().is_none() {
        let bytes = runs.iter().map(|run| run.meta().bytes).sum();
        engine.counters().flush_bytes.add(bytes);
    }
    Ok(true)
}

/// The oldest frozen memtable.
fn next_to_flush(version: &TableVersion) -> Option<Arc<Memtable>> {
    let (oldest, newest) = (version.frozen.last(), version.frozen.first());
    mutation::replace(oldest, Mutation::FlushNewestFirst, newest).cloned()
}

/// Writes the memtable as one run for each side of the splits; newest first.
fn write_runs(
    engine: &Engine,
    table: &TableCore,
    memtable: &Memtable,
    boundaries: &Boundaries,
    splits: &[SeqNo],
) -> Result<Vec<Arc<Run>>> {
    let version = table.version();
    let retain = Retain {
        boundaries,
        merger: &table.merger,
    };
    // All of the table up to the newest run is flushed.
    let flushed_seq = version.runs.first().map(|run| run.origin_span().1);
    let end = memtable.end_seq().expect("it is frozen");
    let ends: Vec<_> = std::iter::once(flushed_seq.unwrap_or(SeqNo::ZERO))
        .chain(splits.iter().copied())
        .chain([end])
        .collect();
    let origins = ends.windows(2).map(|ends| (ends[0].next(), ends[1]));
    let mut runs = KeptRuns::new(engine, table, retain, splits, origins);
    let tombstones = memtable.range_tombstones().unwrap_or_default();
    let mut flushed_bytes = 0;
    let mut of_key = Vec::new();
    // Of one key, newest first.
    let mut add_key = |versions: &[Entry<'_>]| -> Result<()> {
        let key = versions[0].key();
        let covering = tombstones.over(key);
        if let ([only], []) = (versions, covering)
            && only.kind() == Kind::Put
        {
            return runs.add_only(key, only.seq(), only.value());
        }
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
        flushed_bytes += plain_bytes(entry.key(), entry.value());
        if flushed_bytes >= CREDIT_BYTES {
            engine.refill_tokens(std::mem::take(&mut flushed_bytes));
        }
        versions.push(entry);
    }
    engine.refill_tokens(flushed_bytes);
    if !versions.is_empty() {
        add_key(&versions)?;
    }
    let has_older = |range: &KeyRange| version.runs.iter().any(|run| run.overlaps(range));
    runs.finish(None, &tombstones, has_older)
}

/// The bookmarks at which the memtable is worth cutting, ascending.
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

/// Cuts at a bookmark when what lies below it since the last cut, and all that
/// lies above it, are both `worth` a file. `bytes[i]` lies below `bookmarks[i]`
/// and above the one before.
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
