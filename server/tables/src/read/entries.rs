//! The search for the next entry of a source, in bounded pieces: the only place where reads of rows
//! ask the engine for an entry.
//!
//! ```text
//!   RowScan, PartitionScan, entries of an index ─► SourceEntries ─► next entry of the engine
//!                                                      ├─ next: each 32 passed keys ─► Pace of the caller
//!                                                      └─ search: ends after 32 passed keys
//! ```
//!
//! Between two entries there may be any number of keys that the reader does not see: deleted ones,
//! until merges drop them, and in a snapshot those that were written later. A search that passed all of
//! them in one call would outlast the time-out of its statement, so it stops after each
//! [`PASSED_MAX`] of them, and the caller decides whether the read goes on. So does a read that encodes
//! or decodes long values, after each 64 KiB of work ([`ValueWork`]).

use std::cell::Cell;
use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use ebb_storage::{Entries, Entry, Search};

use super::error::{Result, TableError};
use crate::mutation::{Mutation, hides, or_absent};

/// The number of keys that a search may pass without finding an entry. Then it ends, or calls
/// [`Pace::passed`]. A version that is newer than the read counts as a key of its own. In a
/// transaction a search may pass more keys, about the square of this number.
///
/// The number is small, because each key may lie in a block of its own on the disk. If all blocks
/// are in memory, passing 32 keys takes about two microseconds.
pub const PASSED_MAX: u32 = 32;

/// The error with which a caller ends its read.
pub type Ended = Arc<dyn Error + Send + Sync>;

/// A callback of the caller of a read, for instance to check a time-out. It is called while a search
/// passes keys that the reader does not see (deleted ones, say), and by [`ValueWork`].
pub trait Pace: Debug {
    /// Decides whether the read goes on. A search calls this each time it has passed [`PASSED_MAX`]
    /// keys without an entry. [`ValueWork`] calls it before the work on a value, each time this
    /// work and earlier work add up to 64 KiB or more.
    ///
    /// # Errors
    /// If the read has to end. The read then fails with [`TableError::Ended`], which has this
    /// error.
    fn passed(&self) -> Result<(), Ended>;
}

/// The pace of a caller without limits: it never ends a read early.
#[derive(Debug)]
pub struct Unpaced;

impl Pace for Unpaced {
    fn passed(&self) -> Result<(), Ended> {
        Ok(())
    }
}

/// The work on values (encoding and decoding) of a read since [`ValueWork::charge`] last called the
/// [`Pace`]. A row may have thousands of decimals, each of which takes milliseconds or only a part
/// of one.
#[derive(Debug, Default)]
pub struct ValueWork {
    bytes: Cell<usize>,
}

impl ValueWork {
    /// Reports work on a value before the work is done. `bytes` is the amount of work: it takes as
    /// long as the comparison of this number of bytes. Calls `pace` if this work and the work since
    /// the last call of `pace` add up to 64 KiB or more.
    ///
    /// # Errors
    /// The error of [`Pace::passed`].
    pub fn charge(&self, bytes: usize, pace: &dyn Pace) -> Result<(), Ended> {
        /// The least work between two calls of the pace. It takes some 64 microseconds, much longer than
        /// the call.
        const BYTES_MIN: usize = 1 << 16;
        let sum = self.bytes.get().saturating_add(bytes);
        if sum < BYTES_MIN {
            self.bytes.set(sum);
            return Ok(());
        }
        self.bytes.set(0);
        pace.passed()
    }
}

/// The outcome of a short search (of at most [`PASSED_MAX`] keys) for the next entry of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryStep {
    /// The next entry.
    Entry(Entry),
    /// No entry yet: the search has passed [`PASSED_MAX`] keys that the reader does not see. The
    /// key is one behind which a later search can continue, because all keys up to it, in the
    /// direction of the search, were read or passed. `None` if there is no such key yet, and always
    /// in a transaction.
    Passed(Option<Bytes>),
    /// The end of the range.
    Done,
}

impl EntryStep {
    fn new(search: Option<Search>, passed_key: Option<&[u8]>) -> Self {
        match search {
            Some(Search::Found(entry)) => Self::Entry(entry),
            Some(Search::Passed) => Self::Passed(passed_key.map(Bytes::copy_from_slice)),
            None => Self::Done,
        }
    }
}

/// The entries of a range of a [`Source`](super::Source), ascending; `search_back` goes from the other
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

    /// Searches for the next entry in at most [`PASSED_MAX`] keys, and calls no [`Pace`].
    ///
    /// # Errors
    /// If the store cannot read an entry.
    #[inline]
    pub fn search(&mut self) -> Result<EntryStep> {
        let search = self.entries.next_within(PASSED_MAX).transpose();
        let search = or_absent(Mutation::ScansEndAtDamage, search)?;
        Ok(EntryStep::new(search, self.entries.passed_key()))
    }

    /// Searches for the next entry from the other end, as [`search`](Self::search) does from the front.
    ///
    /// # Errors
    /// If the store cannot read an entry.
    #[inline]
    pub fn search_back(&mut self) -> Result<EntryStep> {
        let search = self.entries.next_back_within(PASSED_MAX).transpose();
        let search = or_absent(Mutation::ScansEndAtDamage, search)?;
        Ok(EntryStep::new(search, self.entries.passed_back_key()))
    }
}

impl Iterator for SourceEntries<'_> {
    type Item = Result<Entry>;

    /// Returns the next entry, an error of the store, or the error with which the [`Pace`] ends the search.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.entries.next_within(PASSED_MAX)? {
                Ok(Search::Found(entry)) => return Some(Ok(entry)),
                Ok(Search::Passed) => {
                    if let Err(ended) = self.pace.passed() {
                        return Some(Err(TableError::Ended(ended)));
                    }
                }
                Err(error) if hides(Mutation::ScansEndAtDamage, &error) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests;
