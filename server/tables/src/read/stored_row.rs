//! Stored rows, as scans return them.

use bytes::Bytes;

/// A row as it is stored, visible or not.
#[derive(Debug)]
pub struct StoredRow {
    /// The row's key in the engine.
    pub key: Bytes,
    pub operand: Bytes,
    /// The length of the prefix that all keys of the partition share.
    pub(super) prefix_len: usize,
}

impl StoredRow {
    /// Returns the encoded clustering of the row.
    #[inline]
    pub fn clustering(&self) -> &[u8] {
        &self.key[self.prefix_len + 1..]
    }
}

/// A step of a scan over the rows of a partition. A step without a row takes time too, so the
/// caller paces itself by the number of steps, not of rows.
#[derive(Debug)]
pub enum RowStep {
    /// No row, because the scan of a range of keys has to be opened first: the next call opens it.
    Seek,
    /// A stored row that the selection contains.
    Row(StoredRow),
    /// The key of a row that the selection contains, but the table does not.
    Absent(Bytes),
    /// The key of a stored row that the selection does not contain.
    Unselected(Bytes),
    /// No row yet: a short search has passed keys that the reader does not see. The key is one
    /// behind which a later scan can continue, because all keys up to it, in the direction of the
    /// scan, were read or passed. `None` if there is no such key yet, and always in a transaction.
    Passed(Option<Bytes>),
    /// The end of the rows.
    Done,
}

impl RowStep {
    /// Creates the step for a selected row: the row with its key and operand (the stored bytes), or
    /// its absence if there is no operand. `prefix_len` is the length of the prefix that all keys
    /// of the partition share.
    pub fn of_key(key: Bytes, prefix_len: usize, operand: Option<Bytes>) -> Self {
        match operand {
            Some(operand) => Self::Row(StoredRow {
                key,
                operand,
                prefix_len,
            }),
            None => Self::Absent(key),
        }
    }
}
