//! Carries a decision of the picker out.

use std::sync::Arc;

use bytes::Bytes;

use crate::compaction::{Pick, Reason, Retain, RunShape, TableShape, covered_run, debt_bytes};
use crate::db::kept_runs::KeptRuns;
use crate::db::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::{Cursor, KeyRange, RangeTombstones, RunId, Version};
use crate::manifest::Edit;
use crate::mutation::{self, Mutation};
use crate::read::Merge;
use crate::runs::{Run, plain_bytes};
use crate::version::TableVersion;

/// Others hear of a merge after so many bytes of keys and values.
const CHUNK_BYTES: u64 = 256 << 10;

/// Does the next merge of a table; false when none is worth it that is not under
/// way already, or the table is gone.
///
/// Merges of one table may go on beside each other, and beside flushes: what is
/// below a merge may be merged meanwhile, but never gets a version of a key that
/// it had not, and what is installed replaces runs by their ids.
pub(crate) fn compact(engine: &Engine, table: &TableCore) -> Result<bool> {
    let claimed = engine.claims().claim(|is_busy| {
        // Loaded under the lock: an older version may have runs that are gone.
        let version = table.version();
        let pick = next_pick(engine, table, &version, is_busy)?;
        let runs = &version.runs[pick.runs.clone()];
        let ids = runs.iter().map(|run| run.id()).collect();
        Some((ids, (version, pick)))
    });
    let Some((_claim, (version, pick))) = claimed else {
        return Ok(false);
    };
    // What is merged could not be installed. Threads that fail at merges in turn
    // must not wake each other for them, for ever.
    engine.check_stop()?;
    if let Some(cause) = engine.wal().failure() {
        return Err(Error::ReadOnly { cause });
    }
    engine.wake_compaction(|| engine.tables().iter().any(|table| has_merge(engine, table)));
    let (inputs, older) = version.runs[pick.runs.start..].split_at(pick.runs.len());
    merge(engine, table, inputs, older, pick.reason)
}

/// Whether a merge of the table is under way, or [`compact`] would find one worth
/// doing.
pub(crate) fn wants_compaction(engine: &Engine, table: &TableCore) -> bool {
    engine.claims().look(|is_busy| {
        let version = table.version();
        version.runs.iter().any(|run| is_busy(run.id()))
            || next_pick(engine, table, &version, is_busy).is_some()
    })
}

/// Whether a merge of the table is worth doing that is not under way.
fn has_merge(engine: &Engine, table: &TableCore) -> bool {
    engine
        .claims()
        .look(|is_busy| next_pick(engine, table, &table.version(), is_busy).is_some())
}

/// The bytes that merges of a table have to read before all is done.
pub(crate) fn table_debt_bytes(engine: &Engine, table: &TableCore, version: &TableVersion) -> u64 {
    let table_shape = TableShape {
        runs: &shape(engine, table, version, &|_| false),
        bookmarks: &engine.snapshots().bookmark_seqs(table.id),
        is_idle: false,
    };
    debt_bytes(&*engine.options().compaction.picker, &table_shape)
}

fn shape(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    is_busy: &dyn Fn(RunId) -> bool,
) -> Vec<RunShape> {
    let boundaries = engine.boundaries(table.id);
    let shape = |run: &Arc<Run>| RunShape {
        bytes: run.meta().bytes,
        entries: run.meta().entries,
        keys: run.keys(),
        tombstones: run.tombstones(),
        overwrites: run.overwrites().cloned(),
        garbage_bytes: run.meta().garbage_bytes(&boundaries),
        smallest_seq: run.meta().smallest_seq,
        largest_seq: run.meta().largest_seq,
        is_busy: is_busy(run.id()),
    };
    version.runs.iter().map(shape).collect()
}

fn next_pick(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    is_busy: &dyn Fn(RunId) -> bool,
) -> Option<Pick> {
    let covered = covered_run(&version.runs, || engine.boundaries(table.id), is_busy);
    if let Some(at) = covered {
        return Some(Pick {
            runs: at..at + 1,
            reason: Reason::Covered,
        });
    }
    let runs = shape(engine, table, version, is_busy);
    let pick = engine.options().compaction.picker.pick(&TableShape {
        runs: &runs,
        bookmarks: &engine.snapshots().bookmark_seqs(table.id),
        is_idle: engine.is_idle(),
    })?;
    assert!(
        !pick.runs.is_empty() && pick.runs.end <= runs.len(),
        "a picker picks runs of the table: {pick:?} of {}",
        runs.len()
    );
    Some(pick)
}

fn merge(
    engine: &Engine,
    table: &TableCore,
    inputs: &[Arc<Run>],
    older: &[Arc<Run>],
    reason: Reason,
) -> Result<bool> {
    let output = match reason {
        Reason::Covered => None,
        _ => write_merged(engine, table, inputs, older)?,
    };

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
    if reason != Reason::Covered {
        engine
            .counters()
            .compaction_read_bytes
            .add(inputs.iter().map(|run| run.meta().bytes).sum());
    }
    engine
        .counters()
        .compaction_bytes
        .add(output.as_ref().map_or(0, |run| run.meta().bytes));
    for run in inputs {
        run.retire();
    }
    Ok(true)
}

/// Writes what is needed of the `inputs` as one run; `older` are the runs below.
fn write_merged(
    engine: &Engine,
    table: &TableCore,
    inputs: &[Arc<Run>],
    older: &[Arc<Run>],
) -> Result<Option<Arc<Run>>> {
    // The inputs are fixed; from here on no new view can need what is dropped.
    let boundaries = engine.boundaries(table.id);
    let retain = Retain {
        boundaries: &boundaries,
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
    let mut runs = KeptRuns::new(engine, table, retain, &[], [origin]);
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
