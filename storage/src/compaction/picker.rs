//! What to merge next, as a question to a picker: the shape of a table in, a
//! decision out. No I/O, no clock; who carries it out is `execute`.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::key::SeqNo;
use crate::sstable::KeySketch;

/// Decides what to merge. The same shape gives the same decision.
///
/// Content is right whatever is picked; a picker decides what reads, writes and
/// space cost. It is asked again after each flush, each merge and each deletion
/// of a snapshot, until it finds nothing worth it; so it must come to an end.
pub trait CompactionPicker: Send + Sync + Debug {
    /// The next merge of a table, if one is worth it: neighbours of its run list,
    /// none of them busy.
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick>;
}

/// The bytes that merges will read until a picker finds nothing more worth it,
/// with those that are under way, if nothing else is written meanwhile.
pub(crate) fn debt_bytes(picker: &dyn CompactionPicker, table: &TableShape<'_>) -> u64 {
    let idle = |run: &RunShape| RunShape {
        is_busy: false,
        ..run.clone()
    };
    let mut runs: Vec<_> = table.runs.iter().map(idle).collect();
    let bookmarks = table.bookmarks;
    let mut debt_bytes = 0;
    // Each merge leaves fewer runs, or one of less garbage.
    for _ in 0..2 * table.runs.len() {
        let runs_now = TableShape {
            runs: &runs,
            bookmarks,
            is_idle: false,
        };
        let Some(pick) = picker.pick(&runs_now) else {
            break;
        };
        let merged = merged(&runs[pick.runs.clone()]);
        debt_bytes += runs[pick.runs.clone()]
            .iter()
            .map(|run| run.bytes)
            .sum::<u64>();
        runs.splice(pick.runs, [merged]);
    }
    debt_bytes
}

/// What becomes of runs that are merged, as far as can be told.
pub(super) fn merged(runs: &[RunShape]) -> RunShape {
    let sum = |of: fn(&RunShape) -> u64| runs.iter().map(of).sum::<u64>();
    let overwritten = overwritten(runs, false);
    let (entries, bytes) = match &overwritten {
        Some(it) => (it.entries, it.bytes),
        None => (0, 0),
    };
    let smallest = runs.iter().map(|run| run.smallest_seq).min();
    let largest = runs.iter().map(|run| run.largest_seq).max();
    RunShape {
        bytes: sum(|run| run.bytes.saturating_sub(run.garbage_bytes)).saturating_sub(bytes),
        entries: sum(|run| run.entries).saturating_sub(entries),
        keys: sum(|run| run.keys).saturating_sub(entries),
        tombstones: sum(|run| run.tombstones),
        overwrites: overwritten.map(|it| Arc::new(it.all)),
        garbage_bytes: 0,
        smallest_seq: smallest.unwrap_or_default(),
        largest_seq: largest.unwrap_or_default(),
        is_busy: false,
    }
}

/// Of some runs, what a merge of them drops.
pub(super) struct Overwritten {
    /// About how many versions.
    entries: u64,
    /// About how many bytes.
    pub(super) bytes: u64,
    /// The keys of all of them.
    all: KeySketch,
}

/// What newer runs overwrite, and at the bottom, where nothing is below them, their
/// tombstones; those of the oldest run were kept for somebody. `None` when it cannot
/// be told.
pub(super) fn overwritten(runs: &[RunShape], is_bottom: bool) -> Option<Overwritten> {
    let mut all = KeySketch::default();
    let (mut bytes, mut entries, mut keys, mut distinct) = (0_u64, 0_u64, 0_u64, 0_u64);
    for run in runs {
        let overwrites = run.overwrites.as_ref()?;
        all.union(overwrites);
        distinct = distinct.saturating_add(overwrites.distinct());
        bytes = bytes.saturating_add(run.bytes);
        entries = entries.saturating_add(run.entries);
        keys = keys.saturating_add(run.keys);
    }
    // Of estimates only a ratio: what is wrong with them is so with both.
    let twice = share(keys, distinct.saturating_sub(all.distinct()), distinct);
    let newer = runs.split_last().map_or(&[][..], |(_, newer)| newer);
    let tombstones = newer.iter().filter(|_| is_bottom).map(|run| run.tombstones);
    let dropped = tombstones.fold(twice, u64::saturating_add).min(entries);
    Some(Overwritten {
        entries: dropped,
        bytes: share(bytes, dropped, entries),
        all,
    })
}

/// `of` x `part` / `whole`, rounded up; 0 of nothing.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(of) * u128::from(part);
    product
        .div_ceil(u128::from(whole.max(1)))
        .try_into()
        .unwrap_or(u64::MAX)
}

/// A table, as far as a picker needs it.
#[derive(Debug, Clone, Copy)]
pub struct TableShape<'a> {
    /// Newest first.
    pub runs: &'a [RunShape],
    /// The commits at which snapshots of the table stand, ascending, each once.
    pub bookmarks: &'a [SeqNo],
    /// Whether nobody has written to the database for a while, and hardly anybody
    /// read, so that a merge is in nobody's way and what it makes lasts.
    pub is_idle: bool,
}

/// A run, as far as a picker needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunShape {
    /// Bytes of its files.
    pub bytes: u64,
    /// Versions and range tombstones in them.
    pub entries: u64,
    /// Different keys in them.
    pub keys: u64,
    /// Of the versions, those that are tombstones.
    pub tombstones: u64,
    /// The keys whose older versions, in older runs, it hides. `None` when it may
    /// hide more than those, or its own versions may go by themselves: it has range
    /// tombstones, or values that expire.
    pub overwrites: Option<Arc<KeySketch>>,
    /// About how many of the bytes were kept for snapshots and views that are gone:
    /// rewriting the run gives them back.
    pub garbage_bytes: u64,
    /// The smallest commit that it may hold.
    pub smallest_seq: SeqNo,
    /// The largest.
    pub largest_seq: SeqNo,
    /// Whether it is being merged.
    pub is_busy: bool,
}

/// A decision: merge these neighbours into one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Positions in [`TableShape::runs`]; at least one.
    pub runs: Range<usize>,
    /// Why.
    pub reason: Reason,
}

/// Why a merge is worth its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Too much of them is older versions of keys that newer ones have too.
    Space,
    /// Runs of similar size: reads get cheaper for little writing.
    Ladder,
    /// Too many runs.
    Count,
    /// Nothing in it is seen any more, or it hides nothing: dropped unread.
    Covered,
    /// A good part of the run was kept for snapshots or views that are gone.
    Garbage,
}
