//! The rows of a data file that are not deleted.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::Result;
use super::batches::{Batch, Batches};
use super::deletes::deleted_rows;
use crate::commit::LiveFile;
use crate::data_file::Column;
use crate::target::Target;

/// Reads the rows of a data file that are left, in their order, so that they can be written into another one.
pub struct LeftRows {
    batches: Batches,
    batch: Option<Batch>,
    /// The row of the batch that comes next.
    at: usize,
    deleted: Peekable<IntoIter<u64>>,
    values: Vec<Option<Vec<u8>>>,
}

impl LeftRows {
    /// Opens a data file.
    ///
    /// # Errors
    /// If the target refuses, or if the file or one of its files of deletes is damaged.
    pub fn open(target: &Target, live: &LiveFile, columns: &[Column]) -> Result<Self> {
        Ok(Self {
            batches: Batches::open(target, &live.file, columns)?,
            batch: None,
            at: 0,
            deleted: deleted_rows(target, live)?.into_iter().peekable(),
            values: Vec::new(),
        })
    }

    /// Goes to the next row, and returns its position; `None` behind the last one.
    ///
    /// # Errors
    /// If the file is damaged. The reader is of no use afterwards.
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

    /// Returns the values of the row, by column, in CQL's native serialization.
    pub fn values(&self) -> &[Option<Vec<u8>>] {
        &self.values
    }
}
