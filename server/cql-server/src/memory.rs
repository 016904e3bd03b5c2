//! The memory that a statement takes beyond its own words.
//!
//! A statement mentions columns and types by names, and each mention of a type with thousands of
//! fields may take thousands of times the memory of the name. Mentions share types, and the keys and
//! changes of INSERT JSON. [`Memory`] limits the parts that they cannot share: the names and types of
//! markers and result columns, the columns of `*` and INSERT JSON, the nulls of fields that a value
//! omits, and the results of functions that an execution has at once.
//! [`RequestAnalysis`](crate::write::RequestAnalysis) limits the sum over the texts of a batch.

use ebb_cql::protocol::{ColumnSpec, Columns};

use crate::error::{Result, invalid};
use crate::interrupt;

/// The most bytes that a statement may take beyond what is proportional to its text. The syntax
/// trees of the longest statements take about as much. The limit is a kilobyte for each of the
/// 65,535 markers that a statement may have.
pub const BYTES_MAX: usize = 64 << 20;

/// The length of a null in a tuple or in a value of a user-defined type.
const NULL_BYTES: usize = 4;

/// The bytes that a statement takes so far beyond what is proportional to its text, for example for
/// the types of its markers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    bytes: usize,
}

impl Memory {
    /// Returns the number of bytes so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts `bytes` more bytes, before they are allocated.
    ///
    /// # Errors
    /// If the statement takes more than [`BYTES_MAX`].
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_MAX {
            return invalid(format!(
                "The statement takes more than {BYTES_MAX} bytes beyond its own words; use fewer \
                 columns, markers or values of large types"
            ));
        }
        Ok(())
    }

    /// Counts the nulls that stand for omitted fields in a value of a user-defined type.
    ///
    /// # Errors
    /// The error of [`take`](Self::take).
    pub fn take_nulls(&mut self, omitted: usize) -> Result<()> {
        self.take(NULL_BYTES * omitted)
    }

    /// Encodes the names and types of columns or markers, and counts their bytes.
    ///
    /// # Errors
    /// The error of [`take`](Self::take), or the timeout of the statement.
    pub fn columns(&mut self, specs: &[ColumnSpec<'_>]) -> Result<Columns> {
        Columns::try_new(specs, &mut |bytes: usize| {
            interrupt::charge_bytes(bytes)?;
            self.take(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_takes_at_most_the_limit() {
        let mut memory = Memory::default();
        memory.take(BYTES_MAX - 8).unwrap();
        memory.take_nulls(2).unwrap();
        assert_eq!(memory.bytes(), BYTES_MAX);
        let error = memory.take(1).unwrap_err();
        assert_eq!(
            error.message,
            "The statement takes more than 67108864 bytes beyond its own words; use fewer columns, \
             markers or values of large types"
        );
        assert!(memory.take(usize::MAX).is_err());
    }
}
