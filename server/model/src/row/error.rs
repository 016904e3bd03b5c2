//! The errors of operands.

use thiserror::Error;

/// The reason why operands (encoded writes of a row or of a partition's header) could not be
/// decoded, merged, read or built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowError {
    /// The operand has no bytes; every valid operand has some.
    #[error("empty operand")]
    Empty,
    /// The first byte names another kind of operand, or a format that this build does not support:
    /// open the data with the version that wrote it.
    #[error("operand of format {found:#04x} where {expected:#04x} is read")]
    Format {
        /// The expected first byte.
        expected: u8,
        /// The actual first byte.
        found: u8,
    },
    /// The bytes are not an operand (an encoded write of a row or of a partition's header): they
    /// are damaged, or the writer has a bug.
    #[error("damaged operand: {what} at byte {offset}")]
    Damaged {
        /// The kind of damage.
        what: &'static str,
        /// The offset of the damage, in bytes from the start of the operand; for an element whose
        /// path (its sort key) is malformed, from the start of the path. 0 if the offset is not
        /// known.
        offset: usize,
    },
    /// The column is a single cell in one operand, and a collection in the other operand or for the
    /// reader. No deletion hides the cell.
    #[error("column {column} is a collection in one place and a single cell in another")]
    Mixed {
        /// The id of the column.
        column: u32,
    },
    /// A builder was called against its rules, or a part is too long to be encoded.
    #[error("operand built wrongly: {0}")]
    Build(&'static str),
}
