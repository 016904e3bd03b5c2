//! Carries out a chosen merge.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::compaction::{OtherParts, Purger, Retain, Watched};
use crate::db::choose::{Chosen, choose, has_merge, rewriting};
use crate::db::events::Event;
use crate::db::kept_runs::KeptRuns;
use crate::db::large_groups::CutGroup;
use crate::db::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::{Boundaries, Cursor, KeyBounds, KeyRange, RangeTombstones, RunId, SeqNo};
use crate::manifest::{Edit, State};
use crate::mutation::{self, Mutation};
use crate::read::Merge;
use crate::runs::{Run, RunMeta, plain_bytes};

/// A merge reports its progress, and gives way to writers, after this many bytes of keys and
/// values: some 2 ms of work if the merge reads from memory.
const CHUNK_BYTES: u64 = 256 << 10;

/// Does the next merge of a table. Returns false if no merge is to begin now (see [`choose`]), or
/// the table was dropped meanwhile. Returns true if there may be more to merge: also if the output
/// was discarded because it gained nothing, or if the merge failed at a damaged or unreadable
/// input, which [`Engine::meet_failure`] has handled.
///
/// Merges of one table may go on beside each other, and beside flushes. That is safe because no
/// version of a key is added to older runs, even if they are merged meanwhile, and because runs are
/// replaced by id, not by position.
pub(crate) fn compact(engine: &Engine, table: &TableCore) -> Result<bool> {
    let Some(chosen) = choose(engine, table)? else {
        return Ok(false);
    };
    // The output could not be installed. Threads that fail at merges in turn must not wake each
    // other for ever.
    engine.check_stop()?;
    if let Some(cause) = engine.wal.failure() {
        return Err(Error::ReadOnly { cause });
    }
    engine.wake_compaction(|| engine.tables().iter().any(|table| has_merge(engine, table)));
    match merge(engine, table, &chosen) {
        Err(error) => engine
            .meet_failure(table, chosen.inputs(), error)
            .map(|()| true),
        Ok(merged) => {
            engine.note_sound_merge(table, chosen.inputs());
            Ok(merged)
        }
    }
}

/// Does the chosen merge, or its next part. Returns false if the table was dropped meanwhile.
fn merge(engine: &Engine, table: &TableCore, chosen: &Chosen<'_>) -> Result<bool> {
    let (inputs, began) = (chosen.inputs(), Instant::now());
    // The inputs are fixed; from here on no new view can need the versions that are dropped.
    let boundaries = engine.boundaries(table);
    let Written {
        output,
        rest,
        cut_group,
    } = if chosen.drops() {
        Written::default()
    } else {
        let other_parts = other_parts(engine, table, chosen);
        let ids = inputs.iter().map(|run| run.id()).collect();
        // Its progress counts the output of earlier parts as read.
        let done = chosen.onto().map_or(0, |run| run.meta().entries());
        let watched = engine.merges.begin(ids, done);
        write_merged(
            engine,
            table,
            chosen,
            &boundaries,
            other_parts.as_ref(),
            &watched,
        )?
    };
    let bytes = |runs: &[Arc<Run>]| -> u64 { runs.iter().map(|run| run.meta().bytes()).sum() };
    // The keys from `rest` on stay in the inputs.
    let replaced_bytes = bytes(inputs) - rest.as_ref().map_or(0, |rest| left_bytes(inputs, rest));
    let written_bytes = bytes(output.as_slice());
    if !chosen.drops() {
        engine.counters.compaction_read_bytes.add(replaced_bytes);
        engine.counters.compaction_bytes.add(written_bytes);
    }
    // A part of a run is smaller than the run in any case, so its sizes show no gain.
    let is_whole = rest.is_none() && inputs.iter().all(|run| run.keys_that_count().is_none());
    if let ([input], Some(output)) = (inputs, &output)
        && is_whole
        && !gains(input.meta(), output.meta(), &boundaries)
    {
        // The run stays as it is, and this answer of the picker is refused from now on.
        output.retire();
        let garbage_bytes = input.meta().garbage_bytes(&boundaries);
        let rewriting = rewriting(engine, input, chosen.older(), garbage_bytes);
        let version = table.version();
        let is_there = |id| version.runs.iter().any(|run| run.id() == id);
        table.picks.note_fruitless(rewriting, is_there);
        // True, because the picker may have another merge for the table.
        return Ok(true);
    }

    // A deletion of a snapshot that this merge relied on must not be lost. The changes are read
    // before the sync, so that the manifest records none that the log could still lose.
    let snapshots = engine.unrecorded_snapshots();
    let synced = mutation::unless(Mutation::MergeWithoutWalSync, || engine.wal.sync_all());
    synced.inspect_err(|_| output.iter().for_each(|run| run.retire()))?;
    if mutation::is(Mutation::RemoveInputsBeforeEdit) {
        inputs.iter().for_each(|run| run.retire());
    }
    let ids: Vec<_> = inputs.iter().map(|run| run.id()).collect();
    let onto = chosen.onto().map(|run| run.id());
    let edit = Edit::Compact {
        table: table.id,
        inputs: ids.clone(),
        rest: KeyBounds::between(rest.clone(), None),
        onto,
        output: output.as_ref().map(|run| run.meta().clone()),
        snapshots,
    };
    let mut gone = Vec::new();
    let is_there = |state: &State| state.tables.contains_key(&table.id);
    let installed = engine.install(
        output.as_slice(),
        |state| is_there(state).then_some(edit),
        |_| {
            table.update(|version| {
                let output = output.as_deref();
                let (next, files) = version.compacted(&ids, rest.as_ref(), onto, output);
                gone = files;
                Some(next)
            });
        },
    )?;
    if !installed {
        // The table was dropped. `install` has removed the output.
        return Ok(false);
    }
    engine.counters.compactions.add(1);
    gone.iter().for_each(|file| file.retire());
    if let Some(merged) = onto.or(output.as_ref().map(|run| run.id())) {
        // `note` reads the version after it has locked the groups. An older version may lack the
        // output of another merge that was installed meanwhile, whose group must not be forgotten.
        let is_there = |id| table.version().runs.iter().any(|run| run.id() == id);
        table.cut_groups.note(merged, cut_group, is_there);
    }
    engine.events.tell(Event::Merged {
        keyspace: &table.keyspace,
        table: &table.name,
        runs: inputs.len(),
        replaced_bytes,
        written_bytes,
        took: began.elapsed(),
        is_part: rest.is_some(),
    });
    // The last part of a merge of one run alone.
    if let ([_], None, Some(onto)) = (inputs, rest, onto) {
        note_rewritten(engine, table, onto);
    }
    Ok(true)
}

/// Returns the bytes of these runs from the key `rest` on, which later parts will merge.
fn left_bytes(inputs: &[Arc<Run>], rest: &Bytes) -> u64 {
    let left = |run: &Arc<Run>| {
        let mut meta = run.meta().clone();
        meta.begin_at(rest);
        meta.bytes()
    };
    inputs.iter().map(left).sum()
}

/// Records that rewriting `run` alone once more would gain nothing. Called when `run` is the output
/// of a merge in parts that had one run alone as input. The gain of such a merge is not measured,
/// because its input is replaced part by part. The record is valid until garbage is found in the
/// run, the older runs change, or values may have expired.
fn note_rewritten(engine: &Engine, table: &TableCore, run: RunId) {
    let version = table.version();
    let Some(at) = version.runs.iter().position(|other| other.id() == run) else {
        return;
    };
    let (run, older) = (&version.runs[at], &version.runs[at + 1..]);
    let is_there = |id| version.runs.iter().any(|run| run.id() == id);
    let rewriting = rewriting(engine, run, older, 0);
    table.picks.note_fruitless(rewriting, is_there);
}

/// The output of a merge, or of a part of it.
#[derive(Default)]
struct Written {
    /// The run that was written; `None` if readers need nothing of the merged content.
    output: Option<Arc<Run>>,
    /// The key at which the next part of a merge in several parts begins; `None` if this part was
    /// the last.
    rest: Option<Bytes>,
    /// The group (keys with a common prefix) in which this part has ended; `None` if it has ended
    /// between two groups, or groups are not measured.
    cut_group: Option<CutGroup>,
}

/// Returns whether a run that was rewritten alone has become better: it has fewer entries or bytes,
/// or less known garbage. None of these numbers can shrink for ever, so no run is rewritten for
/// ever.
fn gains(input: &RunMeta, output: &RunMeta, boundaries: &Boundaries) -> bool {
    mutation::is(Mutation::RepeatFruitlessMerges)
        || output.entries() < input.entries()
        || output.bytes() < input.bytes()
        || output.garbage_bytes(boundaries) < input.garbage_bytes(boundaries)
}

/// Returns all runs and memtables of the table other than the inputs: a merge must not purge a
/// deletion that may hide something in them. Returns `None` if this process has no merge operator
/// for the table, because only an operator purges.
///
/// Called after the boundaries were taken. Writes after this call are not in the result. They
/// need not be: an operator purges only deletions that are so old that no write which they would
/// hide is expected any more.
fn other_parts(engine: &Engine, table: &TableCore, chosen: &Chosen<'_>) -> Option<OtherParts> {
    table.merger.operator()?;
    // Waits for the commits that entered before.
    let last = engine.queue.pause(|next| next.before());
    engine.queue.wait_visible(last.unwrap_or_default());
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
        let is_damaged = !run.is_mergeable();
        mutation::is(Mutation::PurgeBesideNewerRuns) && is_newer
            || mutation::is(Mutation::PurgeBesideOlderRuns) && !is_newer
            || mutation::is(Mutation::PurgeBesideNewerDamage) && is_newer && is_damaged
            || mutation::is(Mutation::PurgeBesideOlderDamage) && !is_newer && is_damaged
    };
    let runs = version.all_runs();
    let runs = runs.filter(|run| !is_input(run) && !overlooks(run));
    let memtables = std::iter::once(&version.memtable).chain(&version.frozen);
    let least = memtables.map(|memtable| memtable.least_timestamp()).min();
    Some(OtherParts {
        runs: runs.cloned().collect(),
        least_in_memory: least.unwrap_or(i64::MAX),
    })
}

/// Merges the inputs, or a part of their keys, into one run, without the versions that no reader
/// needs. Purges garbage by timestamps if `other_parts` is given.
fn write_merged(
    engine: &Engine,
    table: &TableCore,
    chosen: &Chosen<'_>,
    boundaries: &Boundaries,
    other_parts: Option<&OtherParts>,
    watched: &Watched<'_>,
) -> Result<Written> {
    let (inputs, older) = (chosen.inputs(), chosen.older());
    let retain = Retain {
        boundaries,
        merger: &table.merger,
    };

    let mut cursors = Vec::with_capacity(inputs.len());
    for run in inputs {
        // Sees all versions, and leaves the block cache to readers.
        let mut cursor = run.cursor(SeqNo::MAX, false);
        cursor.seek_to_first()?;
        cursors.push(cursor);
    }
    // `false`: in ascending order.
    let mut merge: Merge<_, false> = Merge::new(cursors);
    // The output stands for all numbers that its inputs stand for, and is added to the output of
    // earlier parts. The purger below needs the numbers of the versions that are read here alone.
    let origins = inputs.iter().chain(chosen.onto());
    let origins = origins.map(|run| run.origin_span());
    let origin = origins
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        .expect("a merge has inputs");
    let seqs = inputs.iter().map(|run| run.meta());
    let span = seqs.fold((SeqNo::MAX, SeqNo::ZERO), |span, meta| {
        (span.0.min(meta.smallest_seq), span.1.max(meta.largest_seq))
    });
    let purger = other_parts
        .and_then(|other_parts| Purger::new(&table.merger, boundaries, other_parts, span));
    // All inputs begin where the earlier parts end.
    let start = inputs.first().and_then(|run| run.meta().begins_at());
    // The output of earlier parts does not count as older.
    let is_oldest = older.len() == usize::from(chosen.onto().is_some());
    let form = table.options().sstable.of_run(is_oldest);
    let mut runs = KeptRuns::new(engine, table, &form, retain, &[], [origin])
        .beginning_at(start)
        .with_purger(purger)
        .going_on_in(table.cut_groups.of(chosen.onto().map(|run| run.id())));
    // At least 1, because a part must have some output when it ends: see below.
    let part_bytes = engine.options.compaction.part_bytes.max(1);
    let mut rest = None;
    let tombstones = inputs.iter().filter_map(|run| run.range_tombstones());
    let tombstones = tombstones.flat_map(|of_run| of_run.iter());
    let tombstones = RangeTombstones::build(tombstones, Some(boundaries));
    let counts = |run: &Run| run.is_mergeable() || !mutation::is(Mutation::BottomAboveDamage);
    let mut versions = Vec::new();
    let mut last: Option<Bytes> = None;
    let (mut chunk_bytes, mut read_versions) = (0, 0);
    while let Some(key) = merge.next_key(&mut versions)? {
        read_versions += versions.len() as u64;
        chunk_bytes += versions
            .iter()
            .map(|v| plain_bytes(&key, &v.value))
            .sum::<u64>();
        // Good checksums do not prove the order.
        let ascending = last.as_ref().is_none_or(|last| *last < key);
        if !ascending || !versions.is_sorted_by(|newer, older| newer.seq > older.seq) {
            return Err(out_of_order(inputs, &key));
        }
        let bottom = !older.iter().any(|run| counts(run) && run.covers(&key));
        let covering = tombstones.over(&key);
        runs.add(&key, &mut versions, covering, bottom)?;
        if runs.has_failed_to_purge() {
            // Removes what was written. The merge begins anew without purging.
            drop(runs);
            return write_merged(engine, table, chosen, boundaries, None, watched);
        }
        // A part never ends without any output, so there is always a run that records how far the
        // merge is. A key that is out of order is detected in the next round.
        if runs.written_bytes() >= part_bytes
            && let Some(next) = merge.peek()?
            && *next.key() > *key
            && runs.may_end_before(next.key())
        {
            rest = Some(Bytes::copy_from_slice(separator(&key, next.key())));
            break;
        }
        last = Some(key);
        if chunk_bytes >= CHUNK_BYTES {
            watched.has_read(read_versions);
            chosen.note_written(runs.written_bytes());
            engine.after_chunk(std::mem::take(&mut chunk_bytes));
        }
        engine.check_stop()?;
    }
    engine.after_chunk(chunk_bytes);
    // Again: the last chunk may have waited, and what follows syncs files, which may take long.
    engine.check_stop()?;
    let (smallest, largest) = span;
    let of_newest = inputs[0].meta().smallest_seq;
    let smallest = mutation::replace(smallest, Mutation::NarrowSpan, of_newest);
    let has_older = |range: &KeyRange| older.iter().any(|run| run.overlaps(range));
    let cut_group = runs.cut_group(rest.as_ref());
    let span = Some((smallest, largest));
    let mut runs = runs.finish(span, rest.as_ref(), &tombstones, has_older)?;
    let named = engine.runs.finish_runs(&runs);
    named.inspect_err(|_| runs.iter().for_each(|run| run.retire()))?;
    // Without splits there is one run at most.
    let output = runs.pop();
    Ok(Written {
        output,
        rest,
        cut_group,
    })
}

/// Returns the shortest key above `key` and not above `next`: a short key, because the manifest
/// records it. `next` must be above `key`, so it has a byte behind their common prefix.
fn separator<'k>(key: &[u8], next: &'k [u8]) -> &'k [u8] {
    let common = key.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..common + 1]
}

/// Returns the error for versions of `key` that are out of order in blocks with correct checksums:
/// the error of the first file that fails verification, or else one that names the newest file.
fn out_of_order(inputs: &[Arc<Run>], key: &[u8]) -> Error {
    let tables = || inputs.iter().flat_map(|run| run.sorted());
    if let Some(damage) = tables().find_map(|table| table.verify().err()) {
        return damage;
    }
    let newest = tables().next().expect("versions were read");
    let detail = format!("it and the next older runs have versions of {key:02x?} out of order");
    Error::corruption(newest.path(), 0, detail)
}
