//! What can be wrong with an operand.

use thiserror::Error;

/// Why an operand can be neither read nor built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowError {
    /// There are no bytes; every operand has some.
    #[error("empty operand")]
    Empty,
    /// The first byte names another kind of operand, or a format that this build does
    /// not know: open the data with the version that wrote it.
    #[error("operand of format {found:#04x} where {expected:#04x} is read")]
    Format {
        /// The byte that should be there.
        expected: u8,
        /// The byte that is.
        found: u8,
    },
    /// The bytes are no operand: damage, or a bug of whoever wrote them.
    #[error("damaged operand: {what} at byte {offset}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Where it was noticed, in bytes from the start of the operand.
        offset: usize,
    },
    /// One operand has a single cell where the other, or the reader, has a collection.
    #[error("column {column} is a collection in one place and a single cell in another")]
    Mixed {
        /// The id of the column.
        column: u32,
    },
    /// A builder was used against its rules; what it wrote is no operand.
    #[error("operand built wrongly: {0}")]
    Build(&'static str),
}
