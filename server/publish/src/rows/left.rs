//! The rows of a data file that are not deleted.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::Result;
use super::batches::{Batch, Batches};
use super::deletes::deleted_rows;
use crate::commit::LiveFile;
use crate::data_file::Column;
use crate::row_index::RowIndex;
use crate::target::Target;

/// A reader of the rows of a data file that are not deleted, in the order of the file. The caller
/// can write them into another file.
pub struct LeftRows {
    batches: Batches,
    batch: Option<Batch>,
    /// The position, in the batch, of the next row.
    at: usize,
    deleted: Peekable<IntoIter<u64>>,
    values: Vec<Option<Vec<u8>>>,
}

impl LeftRows {
    /// Opens a data file before its first row, to read `columns`.
    ///
    /// # Errors
    /// If a request to the target fails, or if the file or one of its delete files is damaged.
    pub fn open(target: &Target, live: &LiveFile, columns: &[Column]) -> Result<Self> {
        Ok(Self {
            batches: Batches::open(target, &live.file, columns)?,
            batch: None,
            at: 0,
            deleted: deleted_rows(target, live)?.into_iter().peekable(),
            values: Vec::new(),
        })
    }

    /// Skips rows whose keys are below `key`, as far as the index of the file shows them. The index
    /// has the key of every 256th row, or of fewer rows. So [`next_row`](Self::next_row) still
    /// returns some rows below `key`, at most as many as there are rows from one indexed row to the
    /// next. Without an index no row is skipped. `target` and `live` must be those of
    /// [`open`](Self::open). `key_of` returns the key of a row from its values; its error is a
    /// sentence about values that make no key.
    ///
    /// # Errors
    /// If a request to the target fails, if the file is damaged, or if a row has another key than
    /// the index has for it.
    pub fn skip_below(
        &mut self,
        target: &Target,
        live: &LiveFile,
        key: &[u8],
        key_of: impl FnOnce(&[Option<Vec<u8>>]) -> std::result::Result<Vec<u8>, String>,
    ) -> Result<()> {
        let Some(index) = RowIndex::load(target, &live.file)? else {
            return Ok(());
        };
        // For a key above the last one the search ends at the last indexed row, whose key is checked, too.
        let Some(around) = index.rows_around(key.min(index.last())) else {
            return Ok(());
        };
        let first = around.start;
        self.batches.seek(first)?;
        let batch = self.batches.next_batch()?;
        let too_short = || self.batches.error("it ends before its last row".to_owned());
        let batch = batch.ok_or_else(too_short)?;
        // Otherwise rows would be skipped that the caller needs.
        let found = key_of(&self.batches.values(&batch, 0)?);
        let found = found.map_err(|error| self.batches.error(format!("row {first}: {error}")))?;
        if index.key_of(first) != Some(&found[..]) {
            let problem = format!("row {first} has another key than when it was written");
            return Err(self.batches.error(problem));
        }
        (self.batch, self.at) = (Some(batch), 0);
        while self.deleted.next_if(|position| *position < first).is_some() {}
        Ok(())
    }

    /// Goes to the next row that is not deleted, and returns its number in the file; `None` after the last
    /// row.
    ///
    /// # Errors
    /// If a request to the target fails, or if the file is damaged. The reader cannot be used afterwards.
    pub fn next_row(&mut self) -> Result<Option<u64>> {
        loop {
            let Some(batch) = self.batch.as_ref().filter(|batch| self.at < batch.rows) else {
                self.batch = self.batches.next_batch()?;
                self.at = 0;
                if self.batch.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let (row, position) = (self.at, batch.first + self.at as u64);
            self.at += 1;
            if self.deleted.next_if_eq(&position).is_none() {
                self.values = self.batches.values(batch, row)?;
                return Ok(Some(position));
            }
        }
    }

    /// Returns the values of the row that [`next_row`](Self::next_row) went to, in the order of the columns,
    /// in CQL's native serialization; `None` is null.
    pub fn values(&self) -> &[Option<Vec<u8>>] {
        &self.values
    }
}
