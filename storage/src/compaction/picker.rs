//! What to merge next, as a question to a picker: the shape of a table in, a
//! decision out. No I/O, no clock; who carries it out is `execute`.

use std::fmt::Debug;
use std::ops::Range;

use crate::key::SeqNo;

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
        ..*run
    };
    let mut runs: Vec<_> = table.runs.iter().map(idle).collect();
    let bookmarks = table.bookmarks;
    let mut debt_bytes = 0;
    // Each merge leaves fewer runs, or one of less garbage.
    for _ in 0..2 * table.runs.len() {
        let runs_now = TableShape {
            runs: &runs,
            bookmarks,
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
fn merged(runs: &[RunShape]) -> RunShape {
    let live = |run: &RunShape| run.bytes.saturating_sub(run.garbage_bytes);
    let smallest = runs.iter().map(|run| run.smallest_seq).min();
    let largest = runs.iter().map(|run| run.largest_seq).max();
    RunShape {
        bytes: runs.iter().map(live).sum(),
        garbage_bytes: 0,
        smallest_seq: smallest.unwrap_or_default(),
        largest_seq: largest.unwrap_or_default(),
        is_busy: false,
    }
}

/// A table, as far as a picker needs it.
#[derive(Debug, Clone, Copy)]
pub struct TableShape<'a> {
    /// Newest first.
    pub runs: &'a [RunShape],
    /// The commits at which snapshots of the table stand, ascending, each once.
    pub bookmarks: &'a [SeqNo],
}

/// A run, as far as a picker needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunShape {
    /// Bytes of its files.
    pub bytes: u64,
    /// About how many of them were kept for snapshots and views that are gone:
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
    /// The newer runs are as large as the oldest: up to half may be garbage.
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
