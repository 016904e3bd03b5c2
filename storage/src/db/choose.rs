//! Chooses the next merge of a table: gathers the picker's input, calls the picker, checks its
//! answer, and claims the runs.
//!
//! A picker runs while no lock is held. Its runs may be gone when they are to be claimed; then it
//! is called again.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;

use crate::compaction::{
    Claim, CompactionPicker, Refusal, Rewriting, RunShape, TableShape, Unfinished, ask,
    covered_run, debt_bytes, gives_space_back, merged, output_bytes, part_room_bytes, room_bytes,
};
use crate::db::table_work::TableWork;
use crate::db::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::{RunId, SeqNo};
use crate::runs::{Run, RunMeta};
use crate::snapshots::TableBookmarks;
use crate::version::TableVersion;

/// A merge with its claimed runs.
pub(super) struct Chosen<'a> {
    version: Arc<TableVersion>,
    work: TableWork,
    /// The claim of the runs. It is the last field, so that the version is released before a thread
    /// that waits for the end of the merge goes on.
    claim: Claim<'a>,
}

impl Chosen<'_> {
    /// Returns the runs that are merged, neighbours, newest first.
    pub(super) fn inputs(&self) -> &[Arc<Run>] {
        &self.version.runs[self.work.runs.clone()]
    }

    /// Returns the output of the earlier parts of the merge, which this part extends; `None` if
    /// there is no earlier part.
    pub(super) fn onto(&self) -> Option<&Arc<Run>> {
        let (end, has_output) = (self.work.runs.end, self.work.has_output);
        self.version.runs.get(end).filter(|_| has_output)
    }

    /// Returns the runs of the table that are older than the inputs, first the output of the
    /// earlier parts of the merge ([`Self::onto`]), if there is one. These runs may be merged with
    /// each other meanwhile, but no version of a key is added to them.
    pub(super) fn older(&self) -> &[Arc<Run>] {
        &self.version.runs[self.work.runs.end..]
    }

    pub(super) fn note_written(&self, bytes: u64) {
        self.claim.note_written(bytes);
    }

    /// Returns whether the inputs are dropped unread, because no reader needs anything of them.
    pub(super) fn drops(&self) -> bool {
        self.work.drops
    }
}

/// Returns the next merge of a table, with its runs claimed. Returns `None` in these cases:
///
/// - no further merge is worth it;
/// - the merges under way permit no further merge, or none of this size;
/// - merges are paused;
/// - the picker's answer is refused, which the statistics count.
///
/// # Errors
/// `DiskFull` if a merge is worth it and none fits on the disk.
pub(super) fn choose<'a>(engine: &'a Engine, table: &TableCore) -> Result<Option<Chosen<'a>>> {
    let claims = &engine.claims;
    while let Some(bytes_below) = claims.bytes_below() {
        // In this order: the other way round, a run whose merge ends in between would look free.
        let busy = claims.busy();
        let version = table.version();
        let limits = Limits {
            reads_below: bytes_below,
            checks_space: true,
        };
        let (work, room_bytes) = match next(engine, table, &version, &busy, limits) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(None),
            Err(Refusal::NoSpace) => {
                let path = engine.dir().to_path_buf();
                return Err(Error::DiskFull { path });
            }
            Err(refusal) => {
                table.picks.note_refused(refusal);
                engine.counters.picks_refused.add(1);
                return Ok(None);
            }
        };
        let runs = &version.runs[work.claimed()];
        let ids: Vec<_> = runs.iter().map(|run| run.id()).collect();
        let current = || {
            let version = table.version();
            let at = place(&version.runs, runs)?;
            Some((at, version))
        };
        let bytes = (work.bytes_read(&version), room_bytes);
        if let Some((claim, (at, version))) = claims.claim(&ids, bytes, current) {
            // A pause began meanwhile: a caller that counted the merges since then may have missed
            // this one.
            if engine.merge_pauses() > 0 {
                return Ok(None);
            }
            return Ok(Some(Chosen {
                version,
                work: TableWork {
                    runs: at..at + work.runs.len(),
                    ..work
                },
                claim,
            }));
        }
    }
    Ok(None)
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The merge must read fewer bytes than this.
    reads_below: u64,
    /// Whether the output must fit on the disk.
    checks_space: bool,
}

/// No limits, to find out whether any merge is worth it, even one that may not begin now.
const ANY: Limits = Limits {
    reads_below: u64::MAX,
    checks_space: false,
};

/// Returns the bytes that a new merge may write if it leaves `left_bytes` free; `None` if the disk
/// does not report its free space.
fn room(engine: &Engine, left_bytes: u64) -> Option<u64> {
    let free_bytes = engine.runs.tables().free_bytes().ok()??;
    let free_bytes = free_bytes.saturating_sub(left_bytes);
    Some(room_bytes(free_bytes, engine.claims.reserved_bytes()))
}

/// Returns the free space, in bytes, that a merge must leave to the log and the manifest unless it
/// gives space back: the low-water mark, or 0 if the tables are in a store of their own.
fn left_bytes(engine: &Engine) -> u64 {
    match &engine.options.table_store {
        Some(_) => 0,
        None => engine.low_water_bytes(),
    }
}

/// Returns whether the disk has too little space to merge the largest of these tables as a whole;
/// false if the disk does not report its free space.
pub(super) fn is_short_of_space(engine: &Engine, tables: &[Arc<TableCore>]) -> bool {
    let bytes = |table: &Arc<TableCore>| -> u64 {
        let version = table.peek();
        version.runs.iter().map(|run| run.meta().bytes()).sum()
    };
    let largest = tables.iter().map(bytes).max();
    let room = room(engine, left_bytes(engine));
    room.is_some_and(|room| room < largest.unwrap_or(0))
}

/// Estimates the bytes that a merge of the whole table would free.
pub(super) fn gain_bytes(engine: &Engine, table: &TableCore) -> u64 {
    let version = table.version();
    let runs = shapes(&version, garbage_of(engine, table), |_| false);
    if runs.is_empty() {
        0
    } else {
        bytes_of(&runs).saturating_sub(output_bytes(&runs))
    }
}

/// Returns the position in `list` at which `runs` begin; `None` if one of them is no longer there,
/// or was merged in part meanwhile.
fn place(list: &[Arc<Run>], runs: &[Arc<Run>]) -> Option<usize> {
    let at = list.iter().position(|run| Arc::ptr_eq(run, &runs[0]))?;
    let there = list.get(at..at + runs.len())?;
    let is_same = |(one, other): (&Arc<Run>, &Arc<Run>)| Arc::ptr_eq(one, other);
    there.iter().zip(runs).all(is_same).then_some(at)
}

/// Returns whether a merge of the table is under way, or one is worth doing.
pub(crate) fn wants_compaction(engine: &Engine, table: &TableCore) -> bool {
    let busy = engine.claims.busy();
    let version = table.version();
    version.runs.iter().any(|run| busy.contains(&run.id()))
        || matches!(next(engine, table, &version, &busy, ANY), Ok(Some(_)))
}

/// Returns whether [`choose`] would find a merge.
pub(super) fn has_merge(engine: &Engine, table: &TableCore) -> bool {
    let Some(bytes_below) = engine.claims.bytes_below() else {
        return false;
    };
    let busy = engine.claims.busy();
    let limits = Limits {
        reads_below: bytes_below,
        checks_space: true,
    };
    let next = next(engine, table, &table.version(), &busy, limits);
    matches!(next, Ok(Some(_)))
}

/// Estimates the bytes that merges of the table, those under way included, will read until no merge
/// is worth it. Merges that cannot go on because a run cannot be read are left out.
pub(super) fn table_debt_bytes(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    bookmarks: &TableBookmarks<'_>,
) -> u64 {
    let left_out = table.left_out.all();
    let garbage_bytes = |run: &RunMeta| run.bytes_unless(|from, to| bookmarks.has_any(from, to));
    let mut runs = shapes(version, garbage_bytes, |run| left_out.contains(&run));
    let mut begun_bytes = 0;
    let begun = version.unfinished(&left_out);
    for at in begun
        .iter()
        .filter(|it| it.is_stuck)
        .flat_map(Unfinished::runs)
    {
        runs[at].is_busy = true;
    }
    for merge in begun.iter().rev().filter(|merge| !merge.is_stuck) {
        begun_bytes += bytes_of(&runs[merge.inputs.clone()]);
        let merged = merged(&runs[merge.runs()]);
        runs.splice(merge.runs(), [merged]);
    }
    let table_shape = TableShape {
        is_idle: false,
        ..shape(engine, table, &runs, bookmarks.bookmarks())
    };
    begun_bytes + debt_bytes(picker(engine), &table_shape)
}

fn bytes_of(runs: &[RunShape]) -> u64 {
    runs.iter().map(|run| run.bytes).sum()
}

fn picker(engine: &Engine) -> &dyn CompactionPicker {
    &*engine.options.compaction.picker
}

fn shape<'a>(
    engine: &Engine,
    table: &'a TableCore,
    runs: &'a [RunShape],
    bookmarks: &'a [SeqNo],
) -> TableShape<'a> {
    TableShape {
        keyspace: &table.keyspace,
        name: &table.name,
        runs,
        bookmarks,
        is_idle: engine.is_idle(),
    }
}

/// Returns a function that returns, for a run of `table`, the bytes that were kept only for
/// snapshots and views that are gone.
fn garbage_of(engine: &Engine, table: &TableCore) -> impl Fn(&RunMeta) -> u64 {
    // There are as many boundaries as snapshots. The garbage of most runs does not depend on them,
    // because most runs keep nothing for snapshots.
    let boundaries = LazyCell::new(move || engine.boundaries(table));
    move |run: &RunMeta| {
        if run.kept_for.is_empty() {
            return 0;
        }
        run.garbage_bytes(&boundaries)
    }
}

fn shapes(
    version: &TableVersion,
    garbage_of: impl Fn(&RunMeta) -> u64,
    is_busy: impl Fn(RunId) -> bool,
) -> Vec<RunShape> {
    let shape = |run: &Arc<Run>| RunShape {
        id: run.id(),
        bytes: run.meta().bytes(),
        largest_file_bytes: run.largest_file_bytes(),
        entries: run.meta().entries(),
        keys: run.keys(),
        tombstones: run.tombstones(),
        overwrites: run.overwrites().cloned(),
        garbage_bytes: garbage_of(run.meta()),
        smallest_seq: run.meta().smallest_seq,
        largest_seq: run.meta().largest_seq,
        is_busy: is_busy(run.id()) || !run.is_mergeable(),
    };
    version.runs.iter().map(shape).collect()
}

/// Returns the first of the unfinished merges whose next part may run within the limits, with the
/// bytes that this part needs on the disk; and whether a part was passed over for lack of space.
fn next_part(
    engine: &Engine,
    version: &TableVersion,
    begun: &[Unfinished],
    runs: &[RunShape],
    busy: &HashSet<RunId>,
    limits: Limits,
) -> (Option<(TableWork, u64)>, bool) {
    let is_busy = |at: usize| busy.contains(&runs[at].id);
    let waiting = |merge: &&Unfinished| !merge.is_stuck && !merge.runs().any(is_busy);
    let mut lacks_space = false;
    for merge in begun.iter().filter(waiting) {
        let work = TableWork {
            has_output: merge.has_output,
            ..TableWork::merge(merge.inputs.clone())
        };
        let inputs = &runs[merge.inputs.clone()];
        let room_bytes = room_for(engine, inputs);
        if work.bytes_read(version) >= limits.reads_below {
            continue;
        }
        if !limits.checks_space || fits(engine, inputs, room_bytes) {
            return (Some((work, room_bytes)), lacks_space);
        }
        lacks_space = true;
    }
    (None, lacks_space)
}

/// Returns the free bytes that the next part of a merge of these runs needs on the disk.
fn room_for(engine: &Engine, runs: &[RunShape]) -> u64 {
    part_room_bytes(runs, engine.options.compaction.part_bytes)
}

/// Returns whether a merge of these runs, which needs `bytes` on the disk, fits there. A merge that
/// gives much space back may use the space below the low-water mark, too. Returns true if the disk
/// does not report its free space.
fn fits(engine: &Engine, runs: &[RunShape], bytes: u64) -> bool {
    let left_bytes = if gives_space_back(runs) {
        0
    } else {
        left_bytes(engine)
    };
    room(engine, left_bytes).is_none_or(|room| bytes <= room)
}

/// Returns the next work on a table in this version, within the limits, with the bytes that it
/// needs on the disk. `None` if no work is worth it, or while merges are paused.
///
/// # Errors
/// [`Refusal::NoSpace`] if there is work, but none that fits on the disk; another refusal if the
/// picker's answer is refused, and no unfinished merge can go on.
fn next(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    busy: &HashSet<RunId>,
    limits: Limits,
) -> Result<Option<(TableWork, u64)>, Refusal> {
    if engine.merge_pauses() > 0 {
        return Ok(None);
    }
    let boundaries = || engine.boundaries(table);
    let left_out = table.left_out.at(engine.elapsed_ms());
    let begun = version.unfinished(&left_out);
    // The output of an unfinished merge is kept: a repair without a manifest learns from it which
    // keys of the input files no longer count.
    let outputs = begun.iter().filter_map(Unfinished::output);
    let outputs: Vec<_> = outputs.map(|at| version.runs[at].id()).collect();
    let is_kept = |run: RunId| busy.contains(&run) || outputs.contains(&run);
    if let Some(at) = covered_run(&version.runs, boundaries, &is_kept) {
        let work = TableWork {
            drops: true,
            ..TableWork::merge(at..at + 1)
        };
        return Ok(Some((work, 0)));
    }
    let is_busy = |run: RunId| busy.contains(&run) || left_out.contains(&run);
    let mut runs = shapes(version, garbage_of(engine, table), is_busy);
    let (part, lacks_space) = next_part(engine, version, &begun, &runs, busy, limits);
    for at in begun.iter().flat_map(Unfinished::runs) {
        runs[at].is_busy = true;
    }
    let picked = next_pick(engine, table, version, runs, limits);
    let Some(part) = part else {
        return match picked {
            Ok(None) | Err(_) if lacks_space => Err(Refusal::NoSpace),
            picked => picked,
        };
    };
    // Short merges come first, so that runs do not pile up while a long one goes on. A refusal of
    // the picker's answer is reported once no unfinished merge can go on.
    let part_bytes = engine.options.compaction.part_bytes;
    let is_short = |work: &TableWork| work.bytes_read(version) < part_bytes;
    let short = picked.ok().flatten().filter(|(work, _)| is_short(work));
    Ok(Some(short.unwrap_or(part)))
}

/// Returns the next merge of these runs that the table's picker chooses within the limits, and the
/// bytes that its output may need on the disk; `None` if there is no such merge.
///
/// # Errors
/// [`Refusal::NoSpace`] if the picker chose only merges whose output does not fit on the disk;
/// another refusal if its choice is not valid, or would gain nothing.
fn next_pick(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    mut runs: Vec<RunShape>,
    limits: Limits,
) -> Result<Option<(TableWork, u64)>, Refusal> {
    let bookmarks = engine.snapshots.bookmark_seqs(table.span());
    let (mut is_all, mut has_space) = (true, true);
    let nothing = |has_space: bool| {
        if has_space {
            Ok(None)
        } else {
            Err(Refusal::NoSpace)
        }
    };
    let (work, room_bytes) = loop {
        let shape = shape(engine, table, &runs, &bookmarks);
        let Some(pick) = ask(picker(engine), &shape)? else {
            return nothing(has_space);
        };
        let work = match pick.places(&runs) {
            Ok(places) => TableWork::merge(places),
            Err(refusal) if is_all => return Err(refusal),
            // The picker finds only merges that are too large.
            Err(_) => return nothing(has_space),
        };
        let inputs = &runs[work.runs.clone()];
        let room_bytes = room_for(engine, inputs);
        if work.bytes_read(version) < limits.reads_below {
            if !limits.checks_space || fits(engine, inputs, room_bytes) {
                break (work, room_bytes);
            }
            has_space = false;
        }
        // Calls the picker again without the largest run.
        let largest = work.runs.max_by_key(|&at| runs[at].bytes);
        runs[largest.expect("it has runs")].is_busy = true;
        is_all = false;
    };
    if work.runs.len() == 1 {
        let at = work.runs.start;
        let (run, older) = (&version.runs[at], &version.runs[at + 1..]);
        let rewriting = rewriting(engine, run, older, runs[at].garbage_bytes);
        if table.picks.is_fruitless(&rewriting) {
            return Err(Refusal::GainsNothing(run.id()));
        }
    }
    Ok(Some((work, room_bytes)))
}

/// Returns the facts that decide whether a rewriting of `run` alone gains anything. `older` are the
/// table's runs that are older than `run`.
pub(super) fn rewriting(
    engine: &Engine,
    run: &Run,
    older: &[Arc<Run>],
    garbage_bytes: u64,
) -> Rewriting {
    Rewriting {
        run: run.id(),
        garbage_bytes,
        older: older.iter().map(|run| run.id()).collect(),
        now_ms: engine.now_ms(),
        expires: run.expires() || run.has_timestamps(),
    }
}
