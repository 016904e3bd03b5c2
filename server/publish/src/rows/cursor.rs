//! The rows of one data file, looked for by their keys.

use std::cmp::Ordering;

use super::Result;
use super::batches::{Batch, Batches};
use super::keys::RowKeys;
use crate::row_index::{RowIndex, Rows};

/// The largest distance to a row that a cursor covers by reading on instead of seeking, in rows. This is
/// about the size of a page, which is decompressed as a whole anyway.
const READ_ON_ROWS: u64 = 20_000;

/// The error text for a file that has fewer rows than its index records.
const TOO_SHORT: &str = "it ends before its last row";

/// The result of a search for the row of a key in a batch of rows.
enum Found {
    /// The number of the row in the file.
    At(u64),
    /// No row has the key.
    Absent,
    /// The row of the key, if there is one, comes after this batch of rows.
    Behind,
}

/// A reader of one data file that finds rows by their keys.
pub(super) struct Cursor {
    index: RowIndex,
    batches: Batches,
    /// The positions of deleted rows, ascending.
    deleted: Vec<u64>,
    /// The batch that was read last.
    batch: Option<Batch>,
}

impl Cursor {
    pub(super) fn new(index: RowIndex, batches: Batches, deleted: Vec<u64>) -> Self {
        Self {
            index,
            batches,
            deleted,
            batch: None,
        }
    }

    /// Returns the number, in the file, of the row of `key`; `None` if the file has no row with
    /// this key, or if the row is deleted. Keys in ascending order are found fastest.
    ///
    /// # Errors
    /// If the file cannot be read or does not match its index.
    pub(super) fn find(&mut self, key: &[u8], keys: &RowKeys) -> Result<Option<u64>> {
        let Some(around) = self.index.rows_around(key) else {
            return Ok(None);
        };
        if !self.can_go_on(key, &around, keys)? {
            self.go_to(around.start, keys)?;
        }
        while let Some(batch) = &self.batch {
            match self.search(batch, key, &around, keys)? {
                Found::At(position) => {
                    let is_deleted = self.deleted.binary_search(&position).is_ok();
                    return Ok((!is_deleted).then_some(position));
                }
                Found::Absent => return Ok(None),
                Found::Behind => self.batch = self.batches.next_batch()?,
            }
        }
        Err(self.batches.error(TOO_SHORT.to_owned()))
    }

    /// Returns whether a search for `key` among the rows `around` can go on in the current batch, instead of
    /// at the first of these rows. It can if the batch has some of these rows, and if the row of `key` cannot
    /// come before the batch: the batch begins no later than `around`, or the key of its first row is not
    /// greater than `key`.
    fn can_go_on(&self, key: &[u8], around: &Rows, keys: &RowKeys) -> Result<bool> {
        let Some(batch) = &self.batch else {
            return Ok(false);
        };
        if batch.end() <= around.start || around.end <= batch.first {
            return Ok(false);
        }
        Ok(batch.first <= around.start || *keys.of(&self.batches, batch, 0)? <= *key)
    }

    /// Makes the batch with row number `start` the current one. Reads on if the row is at most
    /// [`READ_ON_ROWS`] ahead, otherwise seeks. Checks the key of the row by [`check_key`](Self::check_key).
    fn go_to(&mut self, start: u64, keys: &RowKeys) -> Result<()> {
        let ahead = start.checked_sub(self.batches.next_row());
        if ahead.is_none_or(|ahead| ahead > READ_ON_ROWS) {
            self.batches.seek(start)?;
        }
        loop {
            self.batch = self.batches.next_batch()?;
            let Some(batch) = &self.batch else {
                return Err(self.batches.error(TOO_SHORT.to_owned()));
            };
            if (batch.first..batch.end()).contains(&start) {
                return self.check_key(batch, start, keys);
            }
        }
    }

    /// Checks that row number `row` of the file still has the key that the index has for it, if any. If it
    /// had another key, the search would miss rows.
    fn check_key(&self, batch: &Batch, row: u64, keys: &RowKeys) -> Result<()> {
        let Some(expected) = self.index.key_of(row) else {
            return Ok(());
        };
        let found = keys.of(&self.batches, batch, (row - batch.first) as usize)?;
        if *found == *expected {
            return Ok(());
        }
        let problem = format!("row {row} has another key than when it was written");
        Err(self.batches.error(problem))
    }

    /// Searches `batch` for the row with the key `key`. Looks only at the rows within `around`.
    fn search(&self, batch: &Batch, key: &[u8], around: &Rows, keys: &RowKeys) -> Result<Found> {
        let limit = around.end.min(batch.end());
        let (mut low, mut high) = (around.start.max(batch.first), limit);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = keys.of(&self.batches, batch, (middle - batch.first) as usize)?;
            match (*found).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Found::At(middle)),
                Ordering::Greater => high = middle,
            }
        }
        let is_behind = low >= limit && limit < around.end;
        Ok(if is_behind {
            Found::Behind
        } else {
            Found::Absent
        })
    }
}
