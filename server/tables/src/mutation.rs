//! Switches that break one rule each, to prove that the tests of statements, indexes and jobs
//! detect it: a rule of [`Partition`](crate::read::Partition), the rule that an index entry is only a
//! hint, or the rule that damage is an error.
//!
//! With the feature `mutations` at most one is on in a process: the one that the environment variable
//! `EBB_ROW_MUTATION` names. Without the feature, each is the constant `false`. The nightly part
//! `row_mutations` (`.ci/nightly`) has a table of the tests that must fail, one to three for each
//! switch.

#[cfg(feature = "mutations")]
use std::sync::LazyLock;

use ebb_storage::{Error, Result};

/// A deliberate fault that breaks one rule of visibility, trusts an index entry, or takes damage for
/// absence, to prove that the tests detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
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
    /// A read by an index whose entries refer to rows returns these rows also if they no longer have
    /// the value of their entry.
    StaleEntriesAreRows,
    /// A row or the header of a partition does not exist if damage keeps the store from reading it.
    DamagedKeysAreAbsent,
    /// A scan ends at an entry that the store cannot read because of damage, as at the end of its
    /// range.
    ScansEndAtDamage,
    /// A condition (`IF`) finds no row, or no header, where damage keeps the store from reading it.
    ConditionsPassDamage,
    /// The entry of an index is stale, and is removed, if damage keeps the store from reading its row
    /// or header.
    UnreadableRowsAreStale,
}

/// Returns whether `mutation` is on.
#[cfg(feature = "mutations")]
pub fn is(mutation: Mutation) -> bool {
    static NAME: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("EBB_ROW_MUTATION").ok());
    NAME.as_ref()
        .is_some_and(|name| *name == format!("{mutation:?}"))
}

/// Returns false: without the feature `mutations`, no mutation is on.
#[cfg(not(feature = "mutations"))]
#[inline]
pub const fn is(_: Mutation) -> bool {
    false
}

/// Returns whether `mutation` is on and `error` is damage, which the mutation takes for absence.
#[inline]
pub fn hides(mutation: Mutation, error: &Error) -> bool {
    is(mutation) && matches!(error, Error::Corruption { .. } | Error::Unreadable { .. })
}

/// Returns the result of a read, but `None` in place of an error that `mutation` [`hides`].
///
/// # Errors
/// The error of `read`.
#[inline]
pub fn or_absent<T>(mutation: Mutation, read: Result<Option<T>>) -> Result<Option<T>> {
    match read {
        Err(error) if hides(mutation, &error) => Ok(None),
        read => read,
    }
}
