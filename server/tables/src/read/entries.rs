//! The search for the next entry of a source, in bounded pieces: the only place where reads of rows
//! ask the engine for an entry.
//!
//! ```text
//!   RowScan, PartitionScan, entries of an index ─► SourceEntries ─► next entry of the engine
//!                                                      └─ each 32 passed keys ─► Pace of the caller
//! ```
//!
//! Between two entries there may be any number of keys that the reader does not see: deleted ones,
//! until merges drop them, and in a snapshot those that were written later. A search that passed all of
//! them in one call would outlast the time-out of its statement, so it stops after each
//! [`PASSED_MAX`] of them, and the caller decides whether the read goes on.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use ebb_storage::{Entries, Entry, Search};

use super::error::{Result, TableError};

/// The number of keys without an entry that a search passes between two calls of [`Pace::passed`]. The
/// number is small, because each key may lie in a block of its own on the disk. In memory they take
/// about two microseconds together.
pub const PASSED_MAX: u32 = 32;

/// The error with which a caller ends its read.
pub type Ended = Arc<dyn Error + Send + Sync>;

/// The pace of a reader's caller: its checks while a search passes keys that the reader does not see.
pub trait Pace: Debug {
    /// Is called each time a search has passed [`PASSED_MAX`] keys without an entry.
    ///
    /// # Errors
    /// If the read has to end. The read then fails with [`TableError::Ended`], which has this error.
    fn passed(&self) -> Result<(), Ended>;
}

/// The pace of a caller without limits. Its reads end when they are done.
#[derive(Debug)]
pub struct Unpaced;

impl Pace for Unpaced {
    fn passed(&self) -> Result<(), Ended> {
        Ok(())
    }
}

/// The entries of a range of a [`Source`](super::Source), ascending; `next_back` goes from the other
/// end.
///
/// An error of the store is yielded once; then the iterator ends.
#[derive(Debug)]
pub struct SourceEntries<'s> {
    entries: Entries<'s>,
    pace: &'s dyn Pace,
}

impl<'s> SourceEntries<'s> {
    pub(super) fn new(entries: Entries<'s>, pace: &'s dyn Pace) -> Self {
        Self { entries, pace }
    }

    /// Searches for the next entry in at most [`PASSED_MAX`] keys, and calls no [`Pace`]. `None` at the
    /// end.
    ///
    /// # Errors
    /// If the store cannot read an entry.
    pub fn search(&mut self) -> Result<Option<Search>> {
        Ok(self.entries.next_within(PASSED_MAX).transpose()?)
    }

    /// Returns a key behind which a later read could go on: all keys up to it were read or passed.
    /// `None` as long as there is no such key.
    pub fn passed_key(&self) -> Option<&[u8]> {
        self.entries.passed_key()
    }
}

impl Iterator for SourceEntries<'_> {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self { entries, pace } = self;
        until_found(*pace, || entries.next_within(PASSED_MAX))
    }
}

impl DoubleEndedIterator for SourceEntries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let Self { entries, pace } = self;
        until_found(*pace, || entries.next_back_within(PASSED_MAX))
    }
}

/// Repeats a bounded search until it finds an entry, comes to the end of the range, or fails, or until
/// `pace` ends the read.
#[inline]
fn until_found(
    pace: &dyn Pace,
    mut search: impl FnMut() -> Option<ebb_storage::Result<Search>>,
) -> Option<Result<Entry>> {
    loop {
        match search()? {
            Ok(Search::Found(entry)) => return Some(Ok(entry)),
            Ok(Search::Passed) => {
                if let Err(ended) = pace.passed() {
                    return Some(Err(TableError::Ended(ended)));
                }
            }
            Err(error) => return Some(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests;
