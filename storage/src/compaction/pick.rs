//! What a picker answers, and what asks it.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::refusal::Refusal;
use super::shape::{RunShape, TableShape};
use crate::key::{KeyRange, RunId};

/// Decides what to merge. The same shape gives the same decision.
///
/// Content is right whatever is picked: an answer is checked, and one that cannot be
/// right is not carried out ([`TableStats::picks_refused`](crate::TableStats)). A
/// picker decides what reads, writes and space cost.
///
/// It is asked again after each flush, each merge and each deletion of a snapshot,
/// until it finds nothing worth it, by several threads, none of which holds a lock
/// meanwhile. It should come to an end; one that does not is stopped at merges that
/// gain nothing.
pub trait CompactionPicker: Send + Sync + Debug {
    /// What to do next with a table, if anything is worth it.
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick>;
}

/// What a picker answers. It is code of others: when it panics, that is its answer.
pub(crate) fn ask(
    picker: &dyn CompactionPicker,
    table: &TableShape<'_>,
) -> Result<Option<Pick>, Refusal> {
    catch_unwind(AssertUnwindSafe(|| picker.pick(table))).map_err(|_| Refusal::Panicked)
}

/// A decision about the runs of one table: it names them by their ids, which no
/// other table's runs have.
///
/// What is done is done to the *parts* of the runs that lie in `keys`. The engine works
/// on whole runs so far: a pick of parts is carried out with all of the runs that it
/// names and all that lie between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// What is done.
    pub action: Action,
    /// To which runs, in any order: none that is busy, none twice, and all of those
    /// between the newest and the oldest of them that have something in `keys`.
    pub runs: Vec<RunId>,
    /// To what of them; all keys, to take them whole.
    pub keys: KeyRange,
    /// Why.
    pub reason: Reason,
}

impl Pick {
    /// Merges runs as a whole.
    pub fn merge<'a>(runs: impl IntoIterator<Item = &'a RunShape>, reason: Reason) -> Self {
        Self {
            action: Action::Merge,
            runs: runs.into_iter().map(|run| run.id).collect(),
            keys: KeyRange::all(),
            reason,
        }
    }

    /// The same of what lies in these keys.
    #[must_use]
    pub fn within(self, keys: KeyRange) -> Self {
        Self { keys, ..self }
    }

    /// The same runs and keys with another thing to do.
    #[must_use]
    pub fn to(self, action: Action) -> Self {
        Self { action, ..self }
    }
}

/// What is done to the parts of some runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// They are read, and what is needed of them is written as one, which takes the
    /// place of the oldest. Of a single one that drops what nobody needs any more.
    Merge,
    /// They become a part of the oldest run unread: no two of them may have anything
    /// in the same range of keys. Carried out by merging, so far.
    Move,
    /// They go unread. Refused unless no reader needs anything of them: they lie under
    /// range tombstones of a newer run, with no snapshot and no view in between. The
    /// engine finds whole runs of which that is so by itself, before it asks; only
    /// whole ones go, so far.
    Drop,
}

/// Why something is worth its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Too much of them is older versions of keys that newer ones have too.
    Space,
    /// Runs of similar size: reads get cheaper for little writing.
    Ladder,
    /// Too many runs.
    Count,
    /// A run is too large a part of the next older one.
    Level,
    /// A good part of the run was kept for snapshots or views that are gone.
    Garbage,
}
