//! Switches that break one rule of [`Partition`](crate::read::Partition) each, to prove that the tests
//! of statements, indexes and jobs detect it.
//!
//! With the feature `mutations` at most one is on in a process: the one that the environment variable
//! `EBB_ROW_MUTATION` names. Without the feature, each is the constant `false`. The nightly part
//! `row_mutations` (`.ci/nightly`) has a table of the tests that must fail, three for each switch.

#[cfg(feature = "mutations")]
use std::sync::LazyLock;

/// A deliberate fault that breaks one rule of visibility, to prove that the tests detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Deletions of partitions and of ranges of rows hide no row.
    DeletionsHideNothing,
    /// Deletions of ranges of rows hide no row; those of partitions do.
    RangesHideNothing,
    /// Regular cells from before their column was dropped are visible again; static cells stay
    /// hidden.
    DroppedCellsShow,
    /// Cells and row markers stay visible after their time to live.
    NothingExpires,
    /// A row without a live marker does not exist, whatever cells it has.
    OnlyMarkersCount,
    /// A row exists if it has a cell of a column that was dropped and not added again.
    GoneColumnsCount,
    /// A partition with rows returns one more row, for its static columns. (Without the fault, only
    /// a partition without rows returns such a row.)
    StaticRowsBesideRows,
}

#[cfg(feature = "mutations")]
pub(crate) fn is(mutation: Mutation) -> bool {
    static NAME: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("EBB_ROW_MUTATION").ok());
    NAME.as_ref()
        .is_some_and(|name| *name == format!("{mutation:?}"))
}

/// Returns false: without the feature `mutations`, no mutation is on.
#[cfg(not(feature = "mutations"))]
#[inline]
pub(crate) const fn is(_: Mutation) -> bool {
    false
}
