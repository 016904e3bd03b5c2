//! The rows of one data file, looked for by their keys.

use super::Result;
use super::batches::{Batch, Batches};
use super::keys::RowKeys;
use crate::row_index::{RowIndex, Rows};

/// The largest distance to a row that a cursor covers by reading on instead of seeking, in rows. This is
/// about the size of a page, which is decompressed as a whole anyway.
const READ_ON_ROWS: u64 = 20_000;

/// The error text for a file that has fewer rows than its index records.
const TOO_SHORT: &str = "it ends before its last row";

/// A row of the file and its key.
struct KeyedRow {
    /// The number of the row in the file.
    row: u64,
    key: Vec<u8>,
}

/// A reader of one data file that finds rows by ascending keys.
///
/// A search computes the keys of about a dozen rows. So the cursor keeps the first row whose key is
/// not less than the key that was looked for last. Often the following key belongs to the row after
/// it, or is less than its key and therefore absent.
pub(super) struct Cursor {
    index: RowIndex,
    batches: Batches,
    /// The positions of deleted rows, ascending.
    deleted: Vec<u64>,
    /// The batch that was read last.
    batch: Option<Batch>,
    /// The first row whose key is not less than the one that was looked for last; `None` if unknown.
    next: Option<KeyedRow>,
}

impl Cursor {
    pub(super) fn new(index: RowIndex, batches: Batches, deleted: Vec<u64>) -> Self {
        Self {
            index,
            batches,
            deleted,
            batch: None,
            next: None,
        }
    }

    /// Returns the number, in the file, of the row of `key`; `None` if the file has no row with
    /// this key, or if the row is deleted. `key` must not be less than in the call before.
    ///
    /// # Errors
    /// If the file cannot be read or does not match its index.
    pub(super) fn find(&mut self, key: &[u8], keys: &RowKeys) -> Result<Option<u64>> {
        if !self.reaches_by_next(key, keys)? {
            self.next = None;
            self.next = self.search(key, keys)?;
        }
        let found = self.next.as_ref().filter(|next| *next.key == *key);
        let position = found.map(|found| found.row);
        Ok(position.filter(|position| self.deleted.binary_search(position).is_err()))
    }

    /// Returns whether `next` is the first row whose key is not less than `key`. If it is not,
    /// replaces it by the row after it, and returns whether that row is. Returns false if the row
    /// after it is not in the current batch.
    fn reaches_by_next(&mut self, key: &[u8], keys: &RowKeys) -> Result<bool> {
        let Some(next) = &self.next else {
            return Ok(false);
        };
        if *next.key >= *key {
            return Ok(true);
        }
        let row = next.row + 1;
        let batch = self.batch.as_ref();
        let Some(batch) = batch.filter(|batch| (batch.first..batch.end()).contains(&row)) else {
            return Ok(false);
        };
        let of_row = self.key_of(batch, row, keys)?;
        let reaches = *of_row >= *key;
        self.next = Some(KeyedRow { row, key: of_row });
        Ok(reaches)
    }

    /// Returns the first row whose key is not less than `key`; `None` if the file has no such row,
    /// or if `key` is less than that of its first row.
    fn search(&mut self, key: &[u8], keys: &RowKeys) -> Result<Option<KeyedRow>> {
        let Some(around) = self.index.rows_around(key) else {
            return Ok(None);
        };
        if !self.can_go_on(key, &around, keys)? {
            self.go_to(around.start, keys)?;
        }
        while let Some(batch) = &self.batch {
            let found = self.search_in(batch, key, &around, keys)?;
            if found.is_some() {
                return Ok(found);
            }
            if batch.end() >= around.end {
                // The index has the key of the row behind these rows, if there is one.
                let row = around.end;
                let key = self.index.key_of(row).map(<[u8]>::to_vec);
                return Ok(key.map(|key| KeyedRow { row, key }));
            }
            self.batch = self.batches.next_batch()?;
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
    /// [`READ_ON_ROWS`] ahead, otherwise seeks. Checks the key of the row.
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
                return self.key_of(batch, start, keys).map(drop);
            }
        }
    }

    /// Returns the key of row number `row` of the file, which `batch` has.
    ///
    /// # Errors
    /// If the index has another key of this row: the search would then miss rows.
    fn key_of(&self, batch: &Batch, row: u64, keys: &RowKeys) -> Result<Vec<u8>> {
        let found = keys.of(&self.batches, batch, (row - batch.first) as usize)?;
        match self.index.key_of(row) {
            Some(expected) if *expected != *found => {
                let problem = format!("row {row} has another key than when it was written");
                Err(self.batches.error(problem))
            }
            _ => Ok(found),
        }
    }

    /// Returns the first row of `batch` within `around` whose key is not less than `key`; `None` if
    /// there is none.
    fn search_in(
        &self,
        batch: &Batch,
        key: &[u8],
        around: &Rows,
        keys: &RowKeys,
    ) -> Result<Option<KeyedRow>> {
        let (mut low, mut high) = (around.start.max(batch.first), around.end.min(batch.end()));
        let mut found = None;
        while low < high {
            let row = low + (high - low) / 2;
            let of_row = self.key_of(batch, row, keys)?;
            let order = (*of_row).cmp(key);
            if order.is_lt() {
                low = row + 1;
                continue;
            }
            found = Some(KeyedRow { row, key: of_row });
            if order.is_eq() {
                break;
            }
            high = row;
        }
        Ok(found)
    }
}
