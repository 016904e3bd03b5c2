//! Carries out what was chosen to be merged.

use std::sync::Arc;

use bytes::Bytes;

use crate::compaction::{Elsewhere, Purger, Retain};
use crate::db::choose::{Chosen, choose, has_merge, rewriting};
use crate::db::kept_runs::KeptRuns;
use crate::db::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::{Boundaries, Cursor, KeyRange, RangeTombstones, RunId, SeqNo, Version};
use crate::manifest::Edit;
use crate::mutation::{self, Mutation};
use crate::read::Merge;
use crate::runs::{Run, RunMeta, plain_bytes};

/// Others hear of a merge after so many bytes of keys and values.
const CHUNK_BYTES: u64 = 256 << 10;

/// Does the next merge of a table; false when none is worth it that is not under
/// way already, or the table is gone.
///
/// Merges of one table may go on beside each other, and beside flushes: what is
/// below a merge may be merged meanwhile, but never gets a version of a key that
/// it had not, and what is installed replaces runs by their ids.
pub(crate) fn compact(engine: &Engine, table: &TableCore) -> Result<bool> {
    let Some(chosen) = choose(engine, table) else {
        return Ok(false);
    };
    // What is merged could not be installed. Threads that fail at merges in turn
    // must not wake each other for them, for ever.
    engine.check_stop()?;
    if let Some(cause) = engine.wal().failure() {
        return Err(Error::ReadOnly { cause });
    }
    engine.wake_compaction(|| engine.tables().iter().any(|table| has_merge(engine, table)));
    merge(engine, table, &chosen)
}

fn merge(engine: &Engine, table: &TableCore, chosen: &Chosen<'_>) -> Result<bool> {
    let inputs = chosen.inputs();
    // The inputs are fixed; from here on no new view can need what is dropped.
    let boundaries = engine.boundaries(table.id);
    let output = match chosen.drops() {
        true => None,
        false => {
            let elsewhere = elsewhere(engine, table, chosen);
            write_merged(engine, table, chosen, &boundaries, elsewhere.as_ref())?
        }
    };
    if !chosen.drops() {
        let bytes = |runs: &[Arc<Run>]| runs.iter().map(|run| run.meta().bytes).sum();
        let counters = engine.counters();
        counters.compaction_read_bytes.add(bytes(inputs));
        counters.compaction_bytes.add(bytes(output.as_slice()));
    }
    if let ([input], Some(output)) = (inputs, &output)
        && !gains(input.meta(), output.meta(), &boundaries)
    {
        // What there is stays as it is, and its picker is not heeded in this any more.
        output.retire();
        let garbage_bytes = input.meta().garbage_bytes(&boundaries);
        let rewriting = rewriting(engine, input, chosen.older(), garbage_bytes);
        let version = table.version();
        let is_there = |id| version.runs.iter().any(|run| run.id() == id);
        table.picks.note_fruitless(rewriting, is_there);
        return Ok(true);
    }

    // A deletion of a snapshot that this merge relied on must not be lost.
    let bookmarks = engine.unrecorded_bookmarks();
    mutation::unless(Mutation::MergeWithoutWalSync, || engine.wal().sync_all())?;
    if mutation::is(Mutation::RemoveInputsBeforeEdit) {
        inputs.iter().for_each(|run| run.retire());
    }
    let ids: Vec<_> = inputs.iter().map(|run| run.id()).collect();
    let edit = Edit::Compact {
        table: table.id,
        inputs: ids.clone(),
        output: output.as_ref().map(|run| run.meta().clone()),
        bookmarks,
    };
    let installed = engine.install(table, output.as_slice(), edit, || {
        table.update(|version| Some(version.compacted(&ids, output.clone())));
    })?;
    if !installed {
        return Ok(false);
    }
    engine.counters().compactions.add(1);
    for run in inputs {
        run.retire();
    }
    Ok(true)
}

/// Whether a run that was rewritten alone is better than it was: smaller, or with less
/// in it that is known to be garbage. No run can be made so for ever.
fn gains(input: &RunMeta, output: &RunMeta, boundaries: &Boundaries) -> bool {
    mutation::is(Mutation::RepeatFruitlessMerges)
        || output.entries < input.entries
        || output.bytes < input.bytes
        || output.garbage_bytes(boundaries) < input.garbage_bytes(boundaries)
}

/// What there is beside the inputs, where the values may have garbage by timestamps.
///
/// It is asked for behind the boundaries: what was deleted, or has expired, so long
/// before the time of these that nothing older is to be written any more has all that it
/// may hide in here, or in the inputs. What is written behind this counts as later.
fn elsewhere(engine: &Engine, table: &TableCore, chosen: &Chosen<'_>) -> Option<Elsewhere> {
    table.merger.operator()?;
    // Those that entered before.
    let last = engine.queue().pause(|next| next.before());
    engine.queue().wait_visible(last.unwrap_or_default());
    let version = table.version();
    let inputs = chosen.inputs();
    let is_input = |run: &Run| inputs.iter().any(|input| input.id() == run.id());
    let oldest = inputs.last().map(|run| run.id());
    let place = |run: Option<RunId>| {
        version
            .runs
            .iter()
            .position(|other| Some(other.id()) == run)
    };
    let below = place(oldest).map_or(0, |at| at + 1);
    let overlooks = |run: &Run| {
        let is_newer = place(Some(run.id())).is_none_or(|at| at < below);
        mutation::is(Mutation::PurgeBesideNewerRuns) && is_newer
            || mutation::is(Mutation::PurgeBesideOlderRuns) && !is_newer
    };
    let runs = version.all_runs();
    let runs = runs.filter(|run| !is_input(run) && !overlooks(run));
    let memtables = std::iter::once(&version.memtable).chain(&version.frozen);
    let least = memtables.map(|memtable| memtable.least_timestamp()).min();
    Some(Elsewhere {
        runs: runs.cloned().collect(),
        least_in_memory: least.unwrap_or(i64::MAX),
    })
}

/// Writes what is needed of the inputs as one run; with garbage by timestamps purged
/// where it is known what is `elsewhere`.
fn write_merged(
    engine: &Engine,
    table: &TableCore,
    chosen: &Chosen<'_>,
    boundaries: &Boundaries,
    elsewhere: Option<&Elsewhere>,
) -> Result<Option<Arc<Run>>> {
    let (inputs, older) = (chosen.inputs(), chosen.older());
    let retain = Retain {
        boundaries,
        merger: &table.merger,
    };

    let mut cursors = Vec::with_capacity(inputs.len());
    for run in inputs {
        let mut cursor = run.cursor(false);
        cursor.seek_to_first()?;
        cursors.push(cursor);
    }
    let mut merge: Merge<_, false> = Merge::new(cursors);
    let origins = inputs.iter().map(|run| run.origin_span());
    let origin = origins
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        .expect("a merge has inputs");
    let seqs = inputs.iter().map(|run| run.meta());
    let span = seqs.fold((SeqNo::MAX, SeqNo::ZERO), |span, meta| {
        (span.0.min(meta.smallest_seq), span.1.max(meta.largest_seq))
    });
    let purger =
        elsewhere.and_then(|elsewhere| Purger::new(&table.merger, boundaries, elsewhere, span));
    let mut runs = KeptRuns::new(engine, table, retain, &[], [origin]).with_purger(purger);
    let tombstones = tombstones_of(inputs);
    let mut versions = Vec::new();
    let mut last: Option<Bytes> = None;
    let mut chunk_bytes = 0;
    while let Some(cursor) = merge.peek() {
        let key = Bytes::copy_from_slice(cursor.key());
        while let Some(cursor) = merge.peek().filter(|cursor| cursor.key() == key) {
            versions.push(Version {
                seq: cursor.seq(),
                kind: cursor.kind(),
                value: cursor.value(),
            });
            merge.advance()?;
        }
        chunk_bytes += versions
            .iter()
            .map(|v| plain_bytes(&key, &v.value))
            .sum::<u64>();
        let ascending = last.as_ref().is_none_or(|last| *last < key);
        if !ascending || !versions.is_sorted_by(|newer, older| newer.seq > older.seq) {
            return Err(out_of_order(inputs, &key));
        }
        let bottom = !older.iter().any(|run| run.covers(&key));
        let covering = tombstones.over(&key);
        runs.add(&key, &mut versions, covering, bottom)?;
        if runs.has_failed_to_purge() {
            drop(runs);
            return write_merged(engine, table, chosen, boundaries, None);
        }
        last = Some(key);
        if chunk_bytes >= CHUNK_BYTES {
            engine.after_chunk(std::mem::take(&mut chunk_bytes));
        }
        engine.check_stop()?;
    }
    engine.after_chunk(chunk_bytes);
    engine.check_stop()?;
    let smallest = inputs
        .iter()
        .take(mutation::replace(inputs.len(), Mutation::NarrowSpan, 1))
        .map(|run| run.meta().smallest_seq)
        .min()
        .expect("a merge has inputs");
    let largest = inputs
        .iter()
        .map(|run| run.meta().largest_seq)
        .max()
        .expect("a merge has inputs");
    let has_older = |range: &KeyRange| older.iter().any(|run| run.overlaps(range));
    let mut runs = runs.finish(Some((smallest, largest)), &tombstones, has_older)?;
    Ok(runs.pop())
}

/// The range tombstones of all of them.
fn tombstones_of(runs: &[Arc<Run>]) -> RangeTombstones {
    let mut all = RangeTombstones::default();
    for tombstones in runs.iter().filter_map(|run| run.range_tombstones()) {
        all.insert_all(tombstones);
    }
    all
}

/// The damage behind versions that a merge met out of order, though every
/// checksum was right: verifying finds the file that has it.
fn out_of_order(inputs: &[Arc<Run>], key: &[u8]) -> Error {
    let tables = || {
        inputs
            .iter()
            .flat_map(|run| run.files())
            .map(|file| file.table())
    };
    if let Some(damage) = tables().find_map(|table| table.verify().err()) {
        return damage;
    }
    let newest = tables().next().expect("a run has files");
    let detail = format!("it and the next older runs have versions of {key:02x?} out of order");
    Error::corruption(newest.path(), 0, detail)
}
