//! Switches that break one rule of [`Partition`](crate::read::Partition) each, to show that the tests of
//! statements, indexes and jobs would notice.
//!
//! With the feature `mutations` at most one is on in a process: the one that the environment variable
//! `EBB_ROW_MUTATION` names. Without the feature, all are off, which the compiler knows. The nightly part
//! `row_mutations` runs the tests that must fail.

#[cfg(feature = "mutations")]
use std::sync::LazyLock;

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Deletions of partitions and of ranges hide no row.
    DeletionsHideNothing,
    /// Regular cells from before their column was dropped are visible again; static cells stay hidden.
    DroppedCellsShow,
    /// A row without a live marker is not there, whatever cells it has.
    OnlyMarkersCount,
}

/// Returns whether a mutation is on.
#[cfg(feature = "mutations")]
pub(crate) fn is(mutation: Mutation) -> bool {
    static NAME: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("EBB_ROW_MUTATION").ok());
    NAME.as_ref()
        .is_some_and(|name| *name == format!("{mutation:?}"))
}

/// Returns false: without the feature `mutations` there are none.
#[cfg(not(feature = "mutations"))]
#[inline]
pub(crate) const fn is(_: Mutation) -> bool {
    false
}
