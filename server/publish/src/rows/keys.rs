//! The keys of rows.

use std::sync::Arc;

use super::Result;
use super::batches::{Batch, Batches};
use crate::data_file::Column;

/// A function that returns the key of a row from the cells of the row.
type KeyOf = dyn Fn(&[Option<Vec<u8>>]) -> std::result::Result<Vec<u8>, String> + Send + Sync;

/// The computation of a row's key: the columns that it needs, and a function that returns the key
/// from the cells of these columns. For a row of a data file, the function must return the key with
/// which the row was [written](crate::data_file::DataFileWriter::append_keyed).
#[derive(Clone)]
pub struct RowKeys {
    columns: Vec<Column>,
    key: Arc<KeyOf>,
}

impl RowKeys {
    /// Returns the computation of keys by the function `key`, which gets the cells of `columns` in their
    /// order. An error of `key` is a sentence about cells that make no key.
    pub fn new(
        columns: Vec<Column>,
        key: impl Fn(&[Option<Vec<u8>>]) -> std::result::Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            columns,
            key: Arc::new(key),
        }
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the key of the row at the position `row` of `batch`, which `batches` has read. `batches` must
    /// read the columns of the key, in their order.
    pub(super) fn of(&self, batches: &Batches, batch: &Batch, row: usize) -> Result<Vec<u8>> {
        let cells = batches.values(batch, row)?;
        let position = batch.first + row as u64;
        (self.key)(&cells).map_err(|error| batches.error(format!("row {position}: {error}")))
    }
}
