//! The sources of rows: a table of the store at one instant, or computed rows.

use std::ops::Bound;

use bytes::Bytes;
use ebb_storage::{Cache, Entries, Entry, FoundSoFar, TableReader};

use super::entries::{Pace, SourceEntries, Unpaced};
use super::error::Result;
use crate::mutation::{Mutation, or_absent};

/// A source of rows and of partition headers (deletions and static columns) at one instant. Rows
/// and headers are merge operands, under keys of the engine.
#[derive(Debug, Clone, Copy)]
pub enum Source<'s> {
    /// A table of the store. Reads of its ranges use the block cache as [`Cache`] states, and call the
    /// [`Pace`] while they pass keys that the reader does not see.
    Stored(&'s dyn TableReader, Cache, &'s dyn Pace),
    /// Computed rows, in the order of their keys.
    Memory(&'s [Entry]),
}

impl<'s> Source<'s> {
    /// Returns the time that expiries are compared with, in seconds since 1970. For a table of the store it
    /// is the time at which the reader reads; for computed rows it is `now_us`, in microseconds since 1970.
    pub fn read_time_s(&self, now_us: i64) -> i64 {
        match self {
            Self::Stored(reader, ..) => {
                i64::try_from(reader.read_time_ms() / 1000).unwrap_or(i64::MAX)
            }
            Self::Memory(_) => now_us.div_euclid(1_000_000),
        }
    }

    /// Returns the row or the partition header under a key of the engine, encoded as a merge
    /// operand; `None` if there is none.
    ///
    /// # Errors
    /// If the store cannot read the key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self {
            Self::Stored(reader, ..) => {
                Ok(or_absent(Mutation::DamagedKeysAreAbsent, reader.get(key))?)
            }
            Self::Memory(rows) => {
                let found = rows.binary_search_by(|(k, _)| k[..].cmp(key));
                Ok(found.ok().map(|at| rows[at].1.clone()))
            }
        }
    }

    /// Returns the operands of two keys, the smaller key first; `None` for a key without one. A read of the
    /// store may go from its newest part (memtables and runs) to the oldest, and end once `enough` returns
    /// true: the operands then lack the writes in older parts.
    ///
    /// # Errors
    /// If the store cannot read a key.
    #[inline]
    pub(super) fn get_both(
        &self,
        keys: [&[u8]; 2],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<[Option<Bytes>; 2]> {
        match self {
            Self::Stored(reader, ..) => {
                let found = reader.get_many_until(&keys, enough).map(Some);
                let found = or_absent(Mutation::DamagedKeysAreAbsent, found)?;
                let mut found = found.unwrap_or_default().into_iter();
                Ok([(); 2].map(|()| found.next().flatten()))
            }
            Self::Memory(_) => Ok([self.get(keys[0])?, self.get(keys[1])?]),
        }
    }

    /// Returns an iterator over the keys and operands from `from` to before `to`.
    ///
    /// # Errors
    /// If the store cannot open the range. An entry that cannot be read is an error of the iterator.
    pub fn entries(&self, from: &[u8], to: Option<&[u8]>) -> Result<SourceEntries<'s>> {
        Ok(match self {
            Self::Stored(reader, cache, pace) => {
                let to = to.map_or(Bound::Unbounded, Bound::Excluded);
                let entries = reader.range(Bound::Included(from), to, *cache)?;
                SourceEntries::new(entries, *pace)
            }
            Self::Memory(rows) => {
                let start = rows.partition_point(|(key, _)| key[..] < *from);
                let end = to.map_or(rows.len(), |to| {
                    rows.partition_point(|(key, _)| key[..] < *to)
                });
                let entries = Entries::Memory(rows[start..end.max(start)].iter());
                SourceEntries::new(entries, &Unpaced)
            }
        })
    }
}
