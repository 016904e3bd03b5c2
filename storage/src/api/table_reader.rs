//! One interface to a table at one instant, for views, snapshots, detached tables and transactions.
//!
//! ```text
//!   View with Table ────────┐
//!   SnapshotTable ──────────┼─► TableReader ─► values
//!   DetachedTable ──────────┤               └► Entries, an iterator
//!   Transaction with Table ─┘
//! ```
//!
//! A point read makes one virtual call, and so does opening a range. An iterator
//! over a range makes none.

use std::fmt::Debug;
use std::ops::Bound;
use std::slice;

use crate::api::range::until_found;
use crate::api::{
    Cache, DetachedTable, Entry, Range, Search, SnapshotTable, Table, Transaction,
    TransactionRange, Value, View,
};
use crate::error::Result;
use crate::read::FoundSoFar;

/// Reads of one table at one instant.
///
/// A reader never sees a commit that came after its instant. A transaction sees its own writes on
/// top. `split_keys` is not part of the trait: only snapshots and detached tables have it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
/// # let app = db.keyspace("app")?;
/// # let users = app.table("users", Default::default())?;
/// use std::ops::Bound::{Excluded, Unbounded};
///
/// use ebb_storage::{Cache, Entry, TableReader};
///
/// fn first_behind(reader: &dyn TableReader, key: &[u8]) -> ebb_storage::Result<Option<Entry>> {
///     let mut entries = reader.range(Excluded(key), Unbounded, Cache::Fill)?;
///     entries.next().transpose()
/// }
///
/// users.put(b"ada", b"1815")?;
/// app.create_snapshot("monday")?;
/// users.put(b"ada", b"1852")?;
/// let (snapshot, view) = (app.snapshot("monday")?.table("users")?, db.view());
/// assert_eq!(first_behind(&snapshot, b"a")?.unwrap().1, "1815");
/// assert_eq!(first_behind(&(&view, &users), b"a")?.unwrap().1, "1852");
/// # Ok::<(), ebb_storage::Error>(())
/// ```
pub trait TableReader: Debug + Send + Sync {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged. [`InvalidRequest`](crate::Error::InvalidRequest), from
    /// `get` and `range` alike, if a transaction is paired with a table of another database.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Returns the values of some keys, read newest writes first until `enough` returns true: as
    /// [`View::get_many_until`]. A reader may read everything all the same, without ever calling
    /// `enough`.
    ///
    /// # Errors
    /// As [`TableReader::get`].
    fn get_many_until(
        &self,
        keys: &[&[u8]],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<Vec<Option<Value>>> {
        let _ = enough;
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Opens a key range, which is read from either end.
    ///
    /// # Errors
    /// [`InvalidRequest`](crate::Error::InvalidRequest), as [`TableReader::get`]. An entry that cannot
    /// be read is an error of the iterator.
    fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, cache: Cache) -> Result<Entries<'_>>;

    /// Returns the time by which the reader judges expiry, in milliseconds since 1970.
    fn read_time_ms(&self) -> u64;
}

impl TableReader for (&View, &Table) {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.0.get(self.1, key)
    }

    fn get_many_until(
        &self,
        keys: &[&[u8]],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<Vec<Option<Value>>> {
        self.0.get_many_until(self.1, keys, enough)
    }

    fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, cache: Cache) -> Result<Entries<'_>> {
        let range = self.0.range::<&[u8], _>(self.1, (lower, upper));
        Ok(Entries::Stored(Box::new(range.caching(cache))))
    }

    fn read_time_ms(&self) -> u64 {
        self.0.read_time_ms()
    }
}

impl TableReader for (&Transaction, &Table) {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.0.get(self.1, key)
    }

    fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, cache: Cache) -> Result<Entries<'_>> {
        let range = self.0.range::<&[u8], _>(self.1, (lower, upper))?;
        Ok(Entries::Transaction(Box::new(range.caching(cache))))
    }

    fn read_time_ms(&self) -> u64 {
        self.0.read_time_ms()
    }
}

// Below, `self.get(key)` and the like call the methods of the types, which hide those of the trait.

impl TableReader for SnapshotTable {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get(key)
    }

    fn get_many_until(
        &self,
        keys: &[&[u8]],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<Vec<Option<Value>>> {
        self.get_many_until(keys, enough)
    }

    fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, cache: Cache) -> Result<Entries<'_>> {
        let range = self.range::<&[u8], _>((lower, upper));
        Ok(Entries::Stored(Box::new(range.caching(cache))))
    }

    fn read_time_ms(&self) -> u64 {
        self.read_time_ms()
    }
}

impl TableReader for DetachedTable {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get(key)
    }

    fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, cache: Cache) -> Result<Entries<'_>> {
        let range = self.scan::<&[u8], _>((lower, upper));
        Ok(Entries::Stored(Box::new(range.caching(cache))))
    }

    fn read_time_ms(&self) -> u64 {
        self.read_time_ms()
    }
}

/// The entries of a key range of a [`TableReader`], ascending; `rev()` and `next_back` go from the
/// other end.
///
/// An error (a damaged block, say) is yielded once; then the iterator ends.
#[derive(Debug)]
pub enum Entries<'r> {
    /// Entries of a view, a snapshot or a detached table.
    Stored(Box<Range>),
    /// Entries of a transaction.
    Transaction(Box<TransactionRange<'r>>),
    /// Entries in memory, in the order of their keys. No [`TableReader`] of this crate returns them.
    /// They are for callers that also compute entries, of virtual tables for example, and return both
    /// kinds of entries as one type. An enum of the caller around this one would cost a second match
    /// per entry.
    Memory(slice::Iter<'r, Entry>),
}

impl Entries<'_> {
    /// Searches for the next entry as [`Range::next_within`] does. Among entries in memory, a
    /// search finds the next one at once, and never returns [`Search::Passed`].
    #[inline]
    pub fn next_within(&mut self, keys_max: u32) -> Option<Result<Search>> {
        match self {
            Self::Stored(range) => range.next_within(keys_max),
            Self::Transaction(range) => range.next_within(keys_max),
            Self::Memory(entries) => entries
                .next()
                .cloned()
                .map(|entry| Ok(Search::Found(entry))),
        }
    }

    /// Returns the last key that was read or passed, as [`Range::passed_key`] does. Returns `None`
    /// for the entries of a transaction, and for entries in memory.
    pub fn passed_key(&self) -> Option<&[u8]> {
        match self {
            Self::Stored(range) => range.passed_key(),
            Self::Transaction(_) | Self::Memory(_) => None,
        }
    }

    /// Searches for the next entry from the other end, as [`next_within`](Self::next_within) does from
    /// the front.
    #[inline]
    pub fn next_back_within(&mut self, keys_max: u32) -> Option<Result<Search>> {
        match self {
            Self::Stored(range) => range.next_back_within(keys_max),
            Self::Transaction(range) => range.next_back_within(keys_max),
            Self::Memory(entries) => {
                let entry = entries.next_back().cloned();
                entry.map(|entry| Ok(Search::Found(entry)))
            }
        }
    }

    /// Returns the last key that was read or passed downwards, as [`Range::passed_back_key`] does.
    /// Returns `None` for the entries of a transaction, and for entries in memory.
    pub fn passed_back_key(&self) -> Option<&[u8]> {
        match self {
            Self::Stored(range) => range.passed_back_key(),
            Self::Transaction(_) | Self::Memory(_) => None,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        until_found(|| self.next_within(u32::MAX))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        until_found(|| self.next_back_within(u32::MAX))
    }
}
