//! Paging states: the position at which the next page begins, as bytes that the client returns.
//!
//! ```text
//! version: 1 | statement: 8 | flags: 1 | left: 8 | left of the partition: 8 | key
//! ```
//!
//! Clients may forge paging states. So a state has bounded fields and a hash of the statement, and
//! the reader limits the key to the ranges of the statement.

use ebb_cql::protocol::ErrorResponse;

use super::error::Result;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 8 + 1 + 8 + 8;
const HAD_ROWS: u8 = 1;
/// The length in bytes of the longest key that the storage engine accepts.
const KEY_BYTES_MAX: usize = 256 * 1024;

/// The position at which a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagingState {
    /// A hash of the statement. It must be the same for all pages of a result.
    pub statement: u64,
    /// The key after which the next page begins: the key of a row or of a partition's header (which
    /// has the static columns), or a key that sorts behind all rows of a partition. The row or
    /// header need not be visible to the read.
    pub key: Vec<u8>,
    /// True if the read has passed live rows of the key's partition, or the whole partition, or if
    /// the partition had no static columns. Later pages then do not return the static columns of
    /// the partition as a row of their own.
    pub had_rows: bool,
    /// The number of rows that LIMIT still permits.
    pub left: u64,
    /// The number of rows that PER PARTITION LIMIT still permits in the key's partition.
    pub left_in_partition: u64,
}

impl PagingState {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.key.len());
        out.push(VERSION);
        out.extend(self.statement.to_be_bytes());
        out.push(if self.had_rows { HAD_ROWS } else { 0 });
        out.extend(self.left.to_be_bytes());
        out.extend(self.left_in_partition.to_be_bytes());
        out.extend(&self.key);
        out
    }

    /// Decodes bytes from a client.
    ///
    /// # Errors
    /// If the bytes are no paging state, or the paging state of another statement.
    pub fn decode(bytes: &[u8], statement: u64) -> Result<Self> {
        let state = Self::read(bytes).filter(|state| state.statement == statement);
        state.ok_or_else(invalid)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[version], rest) = bytes.split_first_chunk::<1>()?;
        let (statement, rest) = rest.split_first_chunk::<8>()?;
        let (&[flags], rest) = rest.split_first_chunk::<1>()?;
        let (left, rest) = rest.split_first_chunk::<8>()?;
        let (left_in_partition, key) = rest.split_first_chunk::<8>()?;
        let is_ours = version == VERSION && flags & !HAD_ROWS == 0 && key.len() <= KEY_BYTES_MAX;
        is_ours.then(|| Self {
            statement: u64::from_be_bytes(*statement),
            key: key.to_vec(),
            had_rows: flags & HAD_ROWS != 0,
            left: u64::from_be_bytes(*left),
            left_in_partition: u64::from_be_bytes(*left_in_partition),
        })
    }
}

/// Returns the error of an invalid paging state.
pub fn invalid() -> ErrorResponse {
    ErrorResponse::protocol("Invalid value for the paging state")
}

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
