//! Where the next page begins, as bytes that go to the client and come back.
//!
//! ```text
//! version: 1 | statement: 8 | flags: 1 | left: 8 | left of the partition: 8 | key
//! ```
//!
//! Anybody may have made them up. So they are bounded, they name the statement that they
//! belong to, and whoever resumes holds the key to the ranges of the statement.

use ebb_cql::protocol::ErrorResponse;

use super::error::Result;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 8 + 1 + 8 + 8;
const HAD_ROWS: u8 = 1;
/// No key of the engine is longer.
const KEY_BYTES_MAX: usize = 256 * 1024;

/// Where a page was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagingState {
    /// A hash of what must be the same statement.
    pub statement: u64,
    /// The last key that was read.
    pub key: Vec<u8>,
    /// Its partition gave rows, so its static columns need none of their own.
    pub had_rows: bool,
    /// Rows that LIMIT leaves.
    pub left: u64,
    /// Rows that PER PARTITION LIMIT leaves of its partition.
    pub left_in_partition: u64,
}

impl PagingState {
    /// As bytes.
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

    /// From bytes that a client sent.
    ///
    /// # Errors
    /// Where they are no state, or that of another statement.
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

/// The error of a state that is none.
pub fn invalid() -> ErrorResponse {
    ErrorResponse::protocol("Invalid value for the paging state")
}

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
