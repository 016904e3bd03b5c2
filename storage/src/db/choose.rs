//! Chooses the next merge of a table: gathers what a picker needs, asks it, checks what
//! it answers, and claims the runs.
//!
//! A picker thinks while no lock is held. What it decided on may be gone when the runs
//! are claimed; then it is asked again.

use std::collections::HashSet;
use std::sync::Arc;

use crate::compaction::{
    Claim, Claiming, CompactionPicker, Refusal, Rewriting, RunShape, TableShape, Widened, ask,
    covered_run, debt_bytes, is_covered, widen,
};
use crate::db::{Engine, TableCore};
use crate::key::{RunId, SeqNo};
use crate::mutation::{self, Mutation};
use crate::runs::Run;
use crate::version::TableVersion;

/// A merge that is this caller's own.
pub(super) struct Chosen<'a> {
    /// Until it is dropped.
    _claim: Claim<'a>,
    version: Arc<TableVersion>,
    work: Widened,
}

impl Chosen<'_> {
    /// The runs that are merged, neighbours, newest first.
    pub(super) fn inputs(&self) -> &[Arc<Run>] {
        &self.version.runs[self.work.runs.clone()]
    }

    /// Those below them. They may be merged meanwhile, but never get a version of a key
    /// that they had not.
    pub(super) fn older(&self) -> &[Arc<Run>] {
        &self.version.runs[self.work.runs.end..]
    }

    /// Whether they go unread: no reader needs anything of them.
    pub(super) fn drops(&self) -> bool {
        self.work.drops
    }
}

/// The next merge of a table; `None` when none is worth it that is not under way, or
/// no merge more is to run.
pub(super) fn choose<'a>(engine: &'a Engine, table: &TableCore) -> Option<Chosen<'a>> {
    let claims = engine.claims();
    while !claims.is_full() {
        // In this order: a run that neither is busy nor gone may be had.
        let busy = claims.busy();
        let version = table.version();
        let work = match next(engine, table, &version, &busy) {
            Ok(next) => next?,
            Err(refusal) => {
                table.picks.note_refused(refusal);
                return None;
            }
        };
        let runs = &version.runs[work.runs.clone()];
        let ids: Vec<_> = runs.iter().map(|run| run.id()).collect();
        let current = || {
            let version = table.version();
            let at = place(&version.runs, &ids)?;
            Some((at, version))
        };
        match claims.claim(&ids, current) {
            Claiming::Yours(claim, (at, version)) => {
                return Some(Chosen {
                    _claim: claim,
                    version,
                    work: Widened {
                        runs: at..at + ids.len(),
                        ..work
                    },
                });
            }
            Claiming::Gone => {}
            Claiming::Full => return None,
        }
    }
    None
}

/// Where these runs stand in a list; `None` when it has not all of them any more.
fn place(runs: &[Arc<Run>], ids: &[RunId]) -> Option<usize> {
    let at = runs.iter().position(|run| run.id() == ids[0])?;
    let there = runs[at..].iter().map(|run| run.id()).take(ids.len());
    there.eq(ids.iter().copied()).then_some(at)
}

/// Whether a merge of the table is under way, or [`choose`] would find one.
pub(crate) fn wants_compaction(engine: &Engine, table: &TableCore) -> bool {
    let busy = engine.claims().busy();
    let version = table.version();
    version.runs.iter().any(|run| busy.contains(&run.id()))
        || matches!(next(engine, table, &version, &busy), Ok(Some(_)))
}

/// Whether a merge of the table is worth doing that is not under way.
pub(super) fn has_merge(engine: &Engine, table: &TableCore) -> bool {
    let busy = engine.claims().busy();
    let next = next(engine, table, &table.version(), &busy);
    matches!(next, Ok(Some(_)))
}

/// The bytes that merges of a table have to read before all is done.
pub(super) fn table_debt_bytes(engine: &Engine, table: &TableCore, version: &TableVersion) -> u64 {
    let runs = shapes(engine, table, version, &HashSet::new());
    let bookmarks = engine.snapshots().bookmark_seqs(table.id);
    let table_shape = TableShape {
        is_idle: false,
        ..shape(engine, table, &runs, &bookmarks)
    };
    debt_bytes(picker(engine, table), &table_shape)
}

/// The picker of a table.
pub(super) fn picker<'a>(engine: &'a Engine, table: &TableCore) -> &'a dyn CompactionPicker {
    let options = &engine.options().compaction;
    options.picker_of(&table.keyspace, &table.name)
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

fn shapes(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    busy: &HashSet<RunId>,
) -> Vec<RunShape> {
    let boundaries = engine.boundaries(table.id);
    let shape = |run: &Arc<Run>| RunShape {
        id: run.id(),
        bytes: run.meta().bytes,
        entries: run.meta().entries,
        keys: run.keys(),
        tombstones: run.tombstones(),
        overwrites: run.overwrites().cloned(),
        garbage_bytes: run.meta().garbage_bytes(&boundaries),
        smallest_seq: run.meta().smallest_seq,
        largest_seq: run.meta().largest_seq,
        is_busy: busy.contains(&run.id()),
        files: run.shape().clone(),
        range_tombstones: run.range_tombstones().and_then(|t| t.bounds()),
    };
    version.runs.iter().map(shape).collect()
}

/// What to do next with a table as it stands in a version.
fn next(
    engine: &Engine,
    table: &TableCore,
    version: &TableVersion,
    busy: &HashSet<RunId>,
) -> Result<Option<Widened>, Refusal> {
    let boundaries = || engine.boundaries(table.id);
    if let Some(at) = covered_run(&version.runs, boundaries, &|run| busy.contains(&run)) {
        return Ok(Some(Widened {
            runs: at..at + 1,
            drops: true,
        }));
    }
    let runs = shapes(engine, table, version, busy);
    let bookmarks = engine.snapshots().bookmark_seqs(table.id);
    let shape = shape(engine, table, &runs, &bookmarks);
    let Some(pick) = ask(picker(engine, table), &shape)? else {
        return Ok(None);
    };
    let Some(work) = widen(&pick, &shape)? else {
        return Ok(None);
    };
    let at = work.runs.start;
    let (run, older) = (&version.runs[at], &version.runs[at + 1..]);
    if work.drops {
        let is_unneeded = is_covered(&version.runs, at, &boundaries());
        if !is_unneeded && !mutation::is(Mutation::TrustDrops) {
            return Err(Refusal::StillNeeded(run.id()));
        }
    } else if work.runs.len() == 1 {
        let rewriting = rewriting(engine, run, older, runs[at].garbage_bytes);
        if table.picks.is_fruitless(&rewriting) {
            return Err(Refusal::GainsNothing(run.id()));
        }
    }
    Ok(Some(work))
}

/// The rewriting of a run alone, above the `older` ones.
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
