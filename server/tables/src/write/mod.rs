//! Writes of rows: the operands that change rows, static columns and partitions of a table.
//!
//! ```text
//!   times       the time of a write, and the time to live of its values ─► cells, markers, deletions
//!     ├─► row         the operand of a row or of static columns ─► virtual tables, job outputs
//!     │     └─► buffer    operations on the columns of a row, combined ─► INSERT, UPDATE, IF, batches
//!     └─► deletion    operands that delete rows, ranges of rows and partitions ─► DELETE
//! ```
//!
//! A null value deletes its cell. A column of several cells is replaced by a deletion of its older
//! elements, one microsecond before the new ones. `read` contains the rules by which the result is
//! visible.

mod buffer;
mod deletion;
mod row;
#[cfg(test)]
mod tests;
mod times;

pub use self::buffer::RowBuffer;
pub use self::deletion::{delete_partition, delete_ranges, delete_row};
pub use self::row::{OperandWriter, original_clustering};
pub use self::times::WriteTimes;
